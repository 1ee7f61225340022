package plotting

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Everything of a shade has its class, and the style sheet has both themes'; policies' colours are the same in both.
func TestThemed(t *testing.T) {
	c := vgsvg.New(200, 100)
	c.SetLineWidth(2)
	line := vg.Path{}
	line.Move(vg.Point{X: 1, Y: 1})
	line.Line(vg.Point{X: 9, Y: 9})
	for _, s := range []Shade{Ink, Quiet, Rule} {
		c.SetColor(s.Light)
		c.Stroke(line)
		c.Fill(line)
	}
	for _, k := range policy.Specs {
		c.SetColor(ColourOf(k.Name))
		c.Stroke(line)
	}
	style := Letters(Large, Ink.Light)
	style.Handler.Draw(c, `"a" < style="fill:b"`, style, vg.Point{})
	var drawn bytes.Buffer
	_, err := c.WriteTo(&drawn)
	require.NoError(t, err)

	svg, err := themed(drawn.Bytes())
	require.NoError(t, err)
	require.Contains(t, string(svg), `&#34;a&#34; &lt; style=&#34;fill:b&#34;`)
	require.NotContains(t, string(svg), `style="fill`)
	require.Contains(t, string(svg), `<svg width="600" height="300" viewBox="0 0 200 100"`)
	require.Contains(t, string(svg), "Arial, Helvetica, sans-serif")
	sheet, pictured, _ := strings.Cut(string(svg), "</style>")
	_, dark, found := strings.Cut(sheet, "@media (prefers-color-scheme: dark)")
	require.True(t, found)
	for _, s := range []Shade{Ink, Quiet, Rule} {
		require.Contains(t, dark, "."+s.class+" { fill: "+Hex(s.Dark)+" } ."+s.class+"-line { stroke: "+Hex(s.Dark)+" }")
		require.Equal(t, strings.Count(pictured, `="`+Hex(s.Light)+`"`), strings.Count(pictured, `class="`+s.class), s.class)
		require.Contains(t, pictured, ` stroke="`+Hex(s.Light)+`" class="`+s.class+`-line"`)
		require.Contains(t, pictured, ` fill="`+Hex(s.Light)+`" class="`+s.class+`"`)
	}
	require.Contains(t, dark, Hex(Ground.Dark))
	require.Contains(t, sheet, Hex(Ground.Light))
	for _, k := range policy.Specs {
		require.Contains(t, pictured, ` stroke="`+strings.ToUpper(k.Colour)+`" stroke-width`)
	}

	for _, wrong := range []string{"", "<svg>", `<svg width="1" height="1" viewBox="0 0 wide 1">`, `<svg width="1" height="1" viewBox="0 0 1 high">`} {
		_, err := themed([]byte(wrong))
		require.Error(t, err)
	}
}

// Pictures of policies that are not known are drawn too.
func TestColourOf(t *testing.T) {
	require.Equal(t, Quiet.Light, ColourOf("unknown"))
	seen := map[string]string{}
	for _, k := range policy.Specs {
		c := Hex(ColourOf(k.Name))
		require.Equal(t, strings.ToUpper(k.Colour), c)
		require.Empty(t, seen[c], k.Name)
		seen[c] = k.Name
	}
}

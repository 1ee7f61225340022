package lab

import (
	"bytes"
	"encoding/xml"
	"fmt"
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
	for _, s := range []shade{ink, quiet, rule} {
		c.SetColor(s.light)
		c.Stroke(line)
		c.Fill(line)
	}
	for _, k := range policy.Kinds {
		c.SetColor(colourOf(k.Name))
		c.Stroke(line)
	}
	style := letters(large, ink.light)
	style.Handler.Draw(c, `"a" < style="fill:b"`, style, vg.Point{})
	var drawn bytes.Buffer
	_, err := c.WriteTo(&drawn)
	require.NoError(t, err)

	svg, err := themed(drawn.Bytes())
	require.NoError(t, err)
	require.Contains(t, texts(t, svg), `"a" < style="fill:b"`)
	require.NotContains(t, string(svg), `style="fill`)
	require.Contains(t, string(svg), `<svg width="600" height="300" viewBox="0 0 200 100"`)
	require.Contains(t, string(svg), "Arial, Helvetica, sans-serif")
	sheet, pictured, _ := strings.Cut(string(svg), "</style>")
	_, dark, found := strings.Cut(sheet, "@media (prefers-color-scheme: dark)")
	require.True(t, found)
	for _, s := range []shade{ink, quiet, rule} {
		require.Contains(t, dark, "."+s.class+" { fill: "+hex(s.dark)+" } ."+s.class+"-line { stroke: "+hex(s.dark)+" }")
		require.Equal(t, strings.Count(pictured, `="`+hex(s.light)+`"`), strings.Count(pictured, `class="`+s.class), s.class)
		require.Contains(t, pictured, ` stroke="`+hex(s.light)+`" class="`+s.class+`-line"`)
		require.Contains(t, pictured, ` fill="`+hex(s.light)+`" class="`+s.class+`"`)
	}
	require.Contains(t, dark, hex(ground.dark))
	require.Contains(t, sheet, hex(ground.light))
	for _, k := range policy.Kinds {
		require.Contains(t, pictured, ` stroke="`+strings.ToUpper(k.Colour)+`" stroke-width`)
	}

	for _, wrong := range []string{"", "<svg>", `<svg width="1" height="1" viewBox="0 0 wide 1">`, `<svg width="1" height="1" viewBox="0 0 1 high">`} {
		_, err := themed([]byte(wrong))
		require.Error(t, err)
	}
}

// Pictures of policies that are not known are drawn too.
func TestColourOf(t *testing.T) {
	require.Equal(t, quiet.light, colourOf("unknown"))
	seen := map[string]string{}
	for _, k := range policy.Kinds {
		c := hex(colourOf(k.Name))
		require.Equal(t, strings.ToUpper(k.Colour), c)
		require.Empty(t, seen[c], k.Name)
		seen[c] = k.Name
	}
}

// place is a text of a picture, and where.
type place struct {
	X       float64 `xml:"x,attr"`
	Y       float64 `xml:"y,attr"`
	Size    string  `xml:"font-size,attr"`
	Content string  `xml:",chardata"`
}

// places are the texts of a picture, whose y falls.
func places(t require.TestingT, svg []byte) (all []place, bounds [2]float64) {
	var picture struct {
		ViewBox string `xml:"viewBox,attr"`
		Group   struct {
			Texts []place `xml:"text"`
		} `xml:"g"`
	}
	require.NoError(t, xml.Unmarshal(svg, &picture))
	var zero float64
	_, err := fmt.Sscan(picture.ViewBox, &zero, &zero, &bounds[0], &bounds[1])
	require.NoError(t, err)
	for _, p := range picture.Group.Texts {
		p.Y += bounds[1] // from the bottom-left corner, downwards
		all = append(all, p)
	}
	return all, bounds
}

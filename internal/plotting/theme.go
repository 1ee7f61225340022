package plotting

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"regexp"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Shade is a colour that depends on the reader's theme.
type Shade struct {
	class       string
	Light, Dark color.RGBA
}

// The shades of plots, those of GitHub's pages.
var (
	Ground = Shade{"ground", color.RGBA{255, 255, 255, 255}, color.RGBA{13, 17, 23, 255}}
	Ink    = Shade{"ink", color.RGBA{31, 35, 40, 255}, color.RGBA{240, 246, 252, 255}}
	Quiet  = Shade{"quiet", color.RGBA{89, 99, 110, 255}, color.RGBA{145, 152, 161, 255}}
	Rule   = Shade{"rule", color.RGBA{209, 217, 224, 255}, color.RGBA{61, 68, 77, 255}}
)

// ColourOf returns a policy's colour, for any theme.
func ColourOf(name string) color.RGBA {
	if kind := policy.SpecOf(name); kind != nil {
		if rgb, err := strconv.ParseUint(strings.TrimPrefix(kind.Colour, "#"), 16, 24); err == nil {
			return color.RGBA{uint8(rgb >> 16), uint8(rgb >> 8), uint8(rgb), 255}
		}
	}
	return Quiet.Light
}

func Hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

var (
	svgRoot  = regexp.MustCompile(`<svg width="[^"]*" height="[^"]*" (viewBox="0 0 (\S+) (\S+)")([^>]*)>`)
	svgStyle = regexp.MustCompile(`\s*style="([^"]*)"`)
)

// shown is the width of an SVG in pixels, on a page with enough room.
const shown = 600

// themed adapts vgsvg's SVG, drawn in light shades, to both themes. Styles become attributes, which a style sheet can override;
// renderers without one show the light theme. Fonts are common ones of the measured width. Letters have a seam of the page's
// colour, so that they can be read on the other theme's page, too.
func themed(svg []byte) ([]byte, error) {
	root := svgRoot.FindSubmatchIndex(svg)
	if root == nil {
		return nil, errors.New("drawing the plot: the SVG does not begin as expected")
	}
	size := svgRoot.FindSubmatch(svg)
	wide, err := strconv.ParseFloat(string(size[2]), 64)
	if err != nil {
		return nil, fmt.Errorf("drawing the plot: the width of the SVG: %w", err)
	}
	high, err := strconv.ParseFloat(string(size[3]), 64)
	if err != nil {
		return nil, fmt.Errorf("drawing the plot: the height of the SVG: %w", err)
	}
	var b bytes.Buffer
	b.Write(svg[:root[0]])
	fmt.Fprintf(&b, `<svg width="%d" height="%.0f" %s%s font-family="Liberation Sans, Arial, Helvetica, sans-serif">`+"\n",
		shown, shown*high/wide, size[1], size[4])
	b.WriteString(styleSheet())
	b.Write(svgStyle.ReplaceAllFunc(svg[root[1]:], func(style []byte) []byte {
		return attributes(string(svgStyle.FindSubmatch(style)[1]))
	}))
	return b.Bytes(), nil
}

// styleSheet returns the part that depends on the theme.
func styleSheet() string {
	var b strings.Builder
	b.WriteString("<style>\n")
	seam := func(c color.RGBA) string {
		const text = "text { stroke: %s; stroke-width: 3px; stroke-linejoin: round; paint-order: stroke }"
		return fmt.Sprintf("@supports (paint-order: stroke) { "+text+" }\n", Hex(c))
	}
	b.WriteString(seam(Ground.Light))
	b.WriteString("@media (prefers-color-scheme: dark) {\n")
	b.WriteString(seam(Ground.Dark))
	for _, s := range []Shade{Ink, Quiet, Rule} {
		fmt.Fprintf(&b, ".%s { fill: %s } .%s-line { stroke: %s }\n", s.class, Hex(s.Dark), s.class, Hex(s.Dark))
	}
	b.WriteString("}\n</style>\n")
	return b.String()
}

// attributes converts a style to attributes, with a class for each shade; of fonts it keeps the size.
func attributes(style string) []byte {
	var b bytes.Buffer
	for declaration := range strings.SplitSeq(style, ";") {
		key, value, _ := strings.Cut(declaration, ":")
		if strings.HasPrefix(key, "font-") && key != "font-size" {
			continue
		}
		fmt.Fprintf(&b, " %s=%q", key, value)
		for _, s := range []Shade{Ink, Quiet, Rule} {
			switch {
			case value != Hex(s.Light):
			case key == "stroke":
				fmt.Fprintf(&b, " class=%q", s.class+"-line")
			default:
				fmt.Fprintf(&b, " class=%q", s.class)
			}
		}
	}
	return b.Bytes()
}

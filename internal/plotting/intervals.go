package plotting

import (
	"errors"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Interval is a row of a plot of intervals: a value, nil if it is refused, within a narrow and a wide interval, nil if there is none.
type Interval struct {
	Name         string
	Value        *float64
	Narrow, Wide *[2]float64
	Colour       color.RGBA
}

// figure returns the value as text.
func (x *Interval) figure() string {
	if x.Value == nil {
		return "refused"
	}
	return strconv.FormatFloat(*x.Value, 'g', 4, 64)
}

// Line is a reference line, such as the mean payoff.
type Line struct {
	Name string
	At   float64
}

// Intervals draws a row for each interval on one axis, with its value as a dot and a figure.
func Intervals(w io.Writer, format, title, axis string, all []Interval, against *Line) error {
	if len(all) == 0 {
		return errors.New("there is nothing to draw")
	}
	const row = 34
	name, note := Letters(Large, Ink.Light), Letters(Small, Quiet.Light)
	low, high := math.Inf(1), math.Inf(-1)
	var names, values vg.Length
	for i := range all {
		x := &all[i]
		for _, span := range []*[2]float64{x.Wide, x.Narrow} {
			if span != nil {
				low, high = min(low, span[0]), max(high, span[1])
			}
		}
		if x.Value != nil {
			low, high = min(low, *x.Value), max(high, *x.Value)
		}
		names, values = max(names, name.Width(x.Name)*Slack), max(values, name.Width(x.figure())*Slack)
	}
	if against != nil {
		low, high = min(low, against.At), max(high, against.At)
	}
	if low > high { // all are refused, without bounds
		low, high = 0, 0
	}
	if room := (high - low) / 20; room > 0 {
		low, high = low-room, high+room
	} else {
		low, high = low-0.5, high+0.5
	}
	names = min(names, Width/3)
	head := vg.Length(Margin + Large*Leading + 8)
	if against != nil {
		head += Small * Leading
	}
	height := head + row*vg.Length(len(all)) + 2*Small*Leading + Margin + 8
	return Write(w, format, height, func(c draw.Canvas) {
		left, right := c.Min.X+Margin+names+12, c.Max.X-Margin-values-12
		top, bottom := c.Max.Y-head, c.Min.Y+2*Small*Leading+Margin+4
		at := func(x float64) vg.Length { return left + (right-left)*vg.Length((x-low)/(high-low)) }
		c.FillText(name, vg.Point{X: c.Min.X + Margin, Y: c.Max.Y - Margin - Large}, title)
		for _, t := range (plot.DefaultTicks{}).Ticks(low, high) {
			if t.Label == "" {
				continue
			}
			c.StrokeLine2(draw.LineStyle{Color: Rule.Light, Width: 0.5}, at(t.Value), bottom, at(t.Value), top)
			mark := note
			mark.XAlign = -0.5
			c.FillText(mark, vg.Point{X: at(t.Value), Y: bottom - Small*Leading}, t.Label)
		}
		under := note
		under.XAlign = -0.5
		c.FillText(under, vg.Point{X: (left + right) / 2, Y: c.Min.Y + Margin}, axis)
		if against != nil {
			c.StrokeLine2(draw.LineStyle{Color: Quiet.Light, Width: 1, Dashes: []vg.Length{3, 3}}, at(against.At), bottom, at(against.At), top)
			over := note
			over.XAlign = -0.5
			half := note.Width(against.Name) / 2 * Slack
			c.FillText(over, vg.Point{X: min(max(at(against.At), c.Min.X+Margin+half), c.Max.X-Margin-half), Y: top + 4}, against.Name)
		}
		for i := range all {
			x := &all[i]
			y := top - row*(vg.Length(i)+0.5)
			if x.Wide != nil {
				c.StrokeLine2(draw.LineStyle{Color: x.Colour, Width: 1.5}, at(x.Wide[0]), y, at(x.Wide[1]), y)
			}
			if x.Narrow != nil {
				c.StrokeLine2(draw.LineStyle{Color: x.Colour, Width: 5}, at(x.Narrow[0]), y, at(x.Narrow[1]), y)
			}
			if x.Value != nil {
				c.DrawGlyph(draw.GlyphStyle{Color: x.Colour, Radius: 5, Shape: draw.CircleGlyph{}}, vg.Point{X: at(*x.Value), Y: y})
			}
			c.FillText(name, vg.Point{X: c.Min.X + Margin, Y: y - 0.35*Large}, shortened(x.Name, func(s string) bool { return name.Width(s)*Slack <= names+1 }))
			c.FillText(name, vg.Point{X: right + 12, Y: y - 0.35*Large}, x.figure())
		}
	})
}

// shortened returns a text, cut to fit.
func shortened(s string, fits func(string) bool) string {
	if fits(s) {
		return s
	}
	letters := []rune(s)
	n := len(letters) - 1
	for n > 0 && !fits(string(letters[:n])+"…") {
		n--
	}
	return string(letters[:n]) + "…"
}

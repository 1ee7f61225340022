package lift

import (
	"errors"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/plotting"
)

// errNoLooks is the error of an empty plot.
var errNoLooks = errors.New("--plot: no unit is old enough to count, or no arm has bounds")

// panel is the height of an arm's part of the plot, in points.
const panel = 150

// Plot draws the lift of each arm with its bounds at each look, over the units counted by then.
func (r *Report) Plot(w io.Writer, format string) error {
	var arms []*Arm
	for i := range r.Arms {
		if len(r.Arms[i].Looks) > 0 {
			arms = append(arms, &r.Arms[i])
		}
	}
	if len(arms) == 0 {
		return errNoLooks
	}
	const head = vg.Length(plotting.Margin + plotting.Large*plotting.Leading)
	height := head + vg.Length(len(arms)*panel) + plotting.Margin
	return plotting.Write(w, format, height, func(c draw.Canvas) {
		title := plotting.Letters(plotting.Large, plotting.Ink.Light)
		c.FillText(title, vg.Point{X: c.Min.X + plotting.Margin, Y: c.Max.Y - plotting.Margin - plotting.Large},
			"Experiment "+r.Experiment+", run "+strconv.Itoa(int(r.Run))+": lift to "+r.Control)
		for i, a := range arms {
			top := c.Max.Y - head - vg.Length(i*panel)
			a.draw(c, top-panel, top)
		}
	})
}

func (a *Arm) draw(c draw.Canvas, bottom, top vg.Length) {
	note := plotting.Letters(plotting.Small, plotting.Quiet.Light)
	low, high := a.span()
	most := float64(a.Looks[len(a.Looks)-1].Units)
	left, right := c.Min.X+plotting.Margin+52, c.Max.X-plotting.Margin-8
	bottom, top = bottom+2*plotting.Small*plotting.Leading, top-plotting.Large*plotting.Leading-6
	x := func(units float64) vg.Length { return left + (right-left)*vg.Length(units/most) }
	y := func(lift float64) vg.Length { return bottom + (top-bottom)*vg.Length((lift-low)/(high-low)) }

	c.FillText(plotting.Letters(plotting.Large, plotting.Ink.Light), vg.Point{X: left, Y: top + 4}, a.Arm+": "+a.Verdict)
	for _, t := range (plot.DefaultTicks{}).Ticks(low, high) {
		if t.Label == "" {
			continue
		}
		c.StrokeLine2(draw.LineStyle{Color: plotting.Rule.Light, Width: 0.5}, left, y(t.Value), right, y(t.Value))
		mark := note
		mark.XAlign, mark.YAlign = -1, -0.4
		c.FillText(mark, vg.Point{X: left - 6, Y: y(t.Value)}, t.Label)
	}
	for _, units := range []float64{0, most / 2, most} {
		mark := note
		mark.XAlign = text.XAlignment(-units / most) // within the plot at both ends
		c.FillText(mark, vg.Point{X: x(units), Y: bottom - plotting.Small*plotting.Leading}, config.Grouped(int(units))+" units")
	}
	c.StrokeLine2(draw.LineStyle{Color: plotting.Quiet.Light, Width: 1, Dashes: []vg.Length{3, 3}}, left, y(0), right, y(0))
	line := func(of func(*Look) float64, width vg.Length, colour color.Color) {
		var at []vg.Point
		for i := range a.Looks {
			l := &a.Looks[i]
			at = append(at, vg.Point{X: x(float64(l.Units)), Y: y(min(max(of(l), low), high))})
		}
		c.StrokeLines(draw.LineStyle{Color: colour, Width: width}, at)
	}
	colour := plotting.ColourOf("moss")
	line(func(l *Look) float64 { return l.Lower }, 1.5, colour)
	line(func(l *Look) float64 { return l.Upper }, 1.5, colour)
	line(func(l *Look) float64 { return l.Lift }, 3, colour)
	// The last look is drawn by itself, too, since a line of one look has no length.
	last := &a.Looks[len(a.Looks)-1]
	at := x(most)
	c.StrokeLine2(draw.LineStyle{Color: colour, Width: 1.5}, at, y(max(last.Lower, low)), at, y(min(last.Upper, high)))
	c.DrawGlyph(draw.GlyphStyle{Color: colour, Radius: 4, Shape: draw.CircleGlyph{}}, vg.Point{X: at, Y: y(min(max(last.Lift, low), high))})
}

// span returns the range of lifts shown: 0, the last bounds, and as much again on both sides, since early bounds are wide.
func (a *Arm) span() (low, high float64) {
	last := &a.Looks[len(a.Looks)-1]
	low, high = min(0, last.Lower), max(0, last.Upper)
	room := math.Max(high-low, 1e-6)
	return max(low-room, -1), min(high+room, 1)
}

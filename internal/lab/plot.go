package lab

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/internal/plotting"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// dashes distinguish lines of one policy, which share a colour.
var dashes = [][]vg.Length{nil, {6, 2}, {2, 2}, {9, 2, 2, 2}}

// band is the half-width of a curve's band, in standard errors.
const band = 2

// Plot draws the regret curves of one experiment's results with bands of standard errors, and bounds as lines. Names and final values are
// at the lines' ends, and a dot at the end of a burn-in. Axes are logarithmic; if a mean regret ends below zero, regret is logarithmic on
// both sides and time linear. An SVG has no background and text in the reader's theme; a PNG is light. It fails without results.
func Plot(w io.Writer, format string, results []*Result) error {
	if len(results) == 0 {
		return errors.New("plotting no results")
	}
	s, err := newSketch(results)
	if err != nil {
		return fmt.Errorf("plotting: %w", err)
	}
	l := s.arrange()
	return plotting.Write(w, format, l.height, func(c draw.Canvas) { s.draw(c, l) })
}

type sketch struct {
	*plot.Plot
	negative bool    // negative regret is shown
	floor    float64 // least value of a logarithmic axis
	from     int64   // the first impression shown
	title    string
	notes    []string // under the title
	axes     [2]string
	labels   []*label
}

func newSketch(results []*Result) (*sketch, error) {
	s := &sketch{Plot: plot.New()}
	s.measure(results)
	s.style(results[0].experiment)
	s.title, s.notes = titles(results)
	drawn := map[string]int{} // number of curves by policy
	for _, r := range results {
		if err := s.curve(r, dashes[drawn[r.Policy]%len(dashes)]); err != nil {
			return nil, err
		}
		drawn[r.Policy]++
	}
	if err := s.bounds(results); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.labels, func(a, b *label) int { return cmp.Compare(a.final, b.final) })
	return s, nil
}

func titles(results []*Result) (title string, notes []string) {
	e := results[0].experiment
	title = separated(fmt.Sprintf("%s, %d items, %s", e.Scenario, e.Items, e.Late()))
	if e.Runs > 1 {
		notes = append(notes, fmt.Sprintf("mean of %d runs ± %d standard errors", e.Runs, band))
	}
	switch {
	case !slices.ContainsFunc(results, func(r *Result) bool { return !r.direct() }):
		notes = append(notes, "delay direct")
	case slices.ContainsFunc(results, (*Result).direct):
		notes = append(notes, "delay direct where none is named")
	}
	if slices.ContainsFunc(results, func(r *Result) bool { return r.BurnIn != nil }) {
		notes = append(notes, "dot: end of burn-in")
	}
	return title, notes
}

// measure sets the axes. It leaves out the first impressions and those before payoffs, where curves coincide.
func (s *sketch) measure(results []*Result) {
	e := results[0].experiment
	late := e.PayoffDelay.Mean
	if e.Scenario.OwnDelays() {
		late = e.horizon() / 10
	}
	s.from = int64(math.Pow(10, math.Floor(math.Log10(float64(max(1, min(max(late, e.Horizon/10_000), e.Horizon/100)))))))
	least, most := math.Inf(1), 0.0
	for _, r := range results {
		s.negative = s.negative || r.Regret.Mean < 0
		if r.BurnIn != nil {
			s.from = 1 // its end is marked
		}
	}
	if s.negative {
		s.from = 0
	}
	for _, r := range results {
		for _, c := range r.Curve {
			if size := math.Abs(c.Regret); size > 0 && c.T >= s.from {
				least, most = min(least, size), max(most, size)
			}
		}
	}
	span := 1e4
	if s.negative {
		span = 20
	}
	s.floor = 1
	if most > 0 {
		s.floor = math.Pow(10, math.Floor(math.Log10(max(least, most/span))))
	}
}

func (s *sketch) style(e *Experiment) {
	if s.negative {
		s.X.Min, s.X.Max = 0, float64(e.Horizon)
		s.X.Tick.Marker = evenly{}
		s.Y.Scale, s.Y.Tick.Marker = symmetric(s.floor), symmetric(s.floor)
		s.Y.Min, s.Y.Max = -s.floor, s.floor
		s.axes = [2]string{"impressions", "regret, in units of payoff (logarithmic on both sides of 0)"}
	} else {
		s.X.Min, s.X.Max = float64(s.from), float64(max(e.Horizon, 2))
		s.X.Scale, s.X.Tick.Marker = plot.LogScale{}, powers{every: 1 + int(math.Log10(s.X.Max/s.X.Min)/5)}
		s.Y.Scale, s.Y.Tick.Marker = plot.LogScale{}, powers{every: 1}
		s.Y.Min, s.Y.Max = s.floor, 10*s.floor
		s.axes = [2]string{"impressions (logarithmic)", "regret, in units of payoff (logarithmic)"}
	}
	s.BackgroundColor = nil
	for _, a := range []*plot.Axis{&s.X, &s.Y} {
		a.Tick.Label.Font.Variant, a.Tick.Label.Font.Size = "Sans", plotting.Small
		a.Tick.Label.Color = plotting.Ink.Light
		a.LineStyle.Color, a.Tick.Color = plotting.Quiet.Light, plotting.Quiet.Light
		a.Padding = 0
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = plotting.Rule.Light, plotting.Rule.Light
	s.Add(grid)
}

// at returns a value that the axis can show.
func (s *sketch) at(y float64) float64 {
	if s.negative {
		return y
	}
	return max(y, s.floor)
}

func (s *sketch) curve(r *Result, dash []vg.Length) error {
	c := plotting.ColourOf(r.Policy)
	var line, upper, lower plotter.XYs
	for _, p := range r.Curve {
		if p.T < s.from {
			continue
		}
		x := float64(p.T)
		line = append(line, plotter.XY{X: x, Y: s.at(p.Regret)})
		if p.Stderr != nil {
			upper = append(upper, plotter.XY{X: x, Y: s.at(p.Regret + band**p.Stderr)})
			lower = append(lower, plotter.XY{X: x, Y: s.at(p.Regret - band**p.Stderr)})
		}
	}
	if len(upper) > 1 {
		slices.Reverse(lower)
		area, err := plotter.NewPolygon(append(upper, lower...))
		if err != nil {
			return err
		}
		area.Color = color.NRGBA{c.R, c.G, c.B, 50}
		area.LineStyle.Width = 0
		s.Add(area)
	}
	if r.BurnIn != nil && r.BurnIn.Unfinished < r.Runs {
		if err := s.mark(line, r.BurnIn.Last, c); err != nil {
			return err
		}
	}
	l := &label{name: r.Policy, details: r.details(), final: r.Curve[len(r.Curve)-1].Regret}
	return s.line(l, line, draw.LineStyle{Color: c, Width: vg.Points(1.8), Dashes: dash})
}

// mark puts a dot at the mean end of the burn-in.
func (s *sketch) mark(line plotter.XYs, t float64, c color.Color) error {
	at, _ := slices.BinarySearchFunc(line, t, func(p plotter.XY, t float64) int { return cmp.Compare(p.X, t) })
	at = min(at, len(line)-1)
	y := line[at].Y
	if at > 0 && line[at].X > t {
		before := line[at-1]
		y = before.Y + (y-before.Y)*(t-before.X)/(line[at].X-before.X)
	}
	dot, err := plotter.NewScatter(plotter.XYs{{X: max(t, 1), Y: s.at(y)}})
	if err != nil {
		return err
	}
	dot.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(4), Shape: draw.CircleGlyph{}}
	s.Add(dot)
	return nil
}

func (s *sketch) bounds(results []*Result) error {
	e := results[0].experiment
	drawn := map[float64]bool{}
	for _, r := range results {
		upper := e.Upper(r.combination)
		if upper == nil || drawn[*r.Bound] {
			continue
		}
		drawn[*r.Bound] = true
		l := &label{name: "upper bound", details: append([]string{"of " + r.Policy}, r.details()...)}
		if err := s.function(l, e, upper, draw.LineStyle{
			Color: plotting.ColourOf(r.Policy), Width: vg.Points(1), Dashes: []vg.Length{vg.Points(8), vg.Points(4)},
		}); err != nil {
			return err
		}
	}
	if lower, ok := e.Lower(); ok {
		return s.function(&label{name: "lower bound", details: []string{"asymptotic"}}, e, func(t float64) float64 { return lower * math.Log(t) },
			draw.LineStyle{Color: plotting.Quiet.Light, Width: vg.Points(1.2), Dashes: []vg.Length{vg.Points(2), vg.Points(3)}})
	}
	return nil
}

func (s *sketch) function(l *label, e *Experiment, f func(float64) float64, style draw.LineStyle) error {
	var xys plotter.XYs
	for _, t := range Grid(e.Horizon) {
		if y := f(float64(t)); y == s.at(y) && t >= s.from {
			xys = append(xys, plotter.XY{X: float64(t), Y: y})
			l.final = y
		}
	}
	if len(xys) == 0 {
		return nil
	}
	return s.line(l, xys, style)
}

func (s *sketch) line(l *label, xys plotter.XYs, style draw.LineStyle) error {
	line, err := plotter.NewLine(xys)
	if err != nil {
		return err
	}
	line.LineStyle = style
	s.Add(line)
	l.style, l.end = style, xys[len(xys)-1].Y
	s.labels = append(s.labels, l)
	return nil
}

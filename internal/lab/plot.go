package lab

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/policy"
)

// palette is for readers who do not tell red from green too (M. Okabe, K. Ito, "Color universal design", 2008), the pale
// yellow left out.
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255}, {230, 159, 0, 255},
	{0, 0, 0, 255},
}

// dashes tell curves apart that have the same colour.
var dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(2)}, {vg.Points(2), vg.Points(2)}}

// band is how many standard errors a curve's band reaches on each side.
const band = 2

// PlotFormat is svg or png, by a file's name.
func PlotFormat(file string) (string, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".svg":
		return "svg", nil
	case ".png":
		return "png", nil
	}
	return "", fmt.Errorf("%q must end in .svg or .png", file)
}

// Plot draws the regret curves of one experiment's results, with a band of standard errors each, and bounds as lines.
// A dot marks where a burn-in ends. Axes are logarithmic. Where some mean regret ends below zero, that of regret is so on both sides of zero, and time is
// linear.
func Plot(w io.Writer, format string, results []*Result) error {
	if len(results) == 0 {
		return errors.New("plotting no results")
	}
	s, err := newSketch(results)
	if err != nil {
		return fmt.Errorf("plotting: %w", err)
	}
	const width, height = 20 * vg.Centimeter, 13 * vg.Centimeter
	var c interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if format == "png" {
		c = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(192))}
	} else {
		c = vgsvg.New(width, height)
	}
	s.draw(draw.New(c))
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("writing the plot: %w", err)
	}
	return nil
}

// sketch is a picture in the making.
type sketch struct {
	*plot.Plot
	negative bool    // regret below zero is shown
	floor    float64 // what a logarithmic axis can show at the least
	from     int64   // the first impression that is shown
	legend   []legendEntry
}

// legendEntry is a line of the legend. They are put in the order in which the lines end, the highest first.
type legendEntry struct {
	name  string
	line  *plotter.Line
	final float64
}

func newSketch(results []*Result) (*sketch, error) {
	s := &sketch{Plot: plot.New()}
	s.measure(results)
	s.style(results[0].experiment)
	for k, r := range results {
		if err := s.curve(r, palette[k%len(palette)], dashes[k/len(palette)%len(dashes)]); err != nil {
			return nil, err
		}
	}
	if err := s.bounds(results); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.legend, func(a, b legendEntry) int { return cmp.Compare(b.final, a.final) })
	return s, nil
}

// draw puts the title above the legend above the plot: inside it, the legend would lie on curves.
func (s *sketch) draw(c draw.Canvas) {
	const margin, line, columns = 8, 15, 2
	c.SetColor(color.White)
	c.Fill(c.Path())
	c = draw.Crop(c, margin, -2*margin, margin, -margin)
	c.FillText(s.Title.TextStyle, vg.Point{X: c.Center().X, Y: c.Max.Y}, s.Title.Text)
	c.Max.Y -= s.Title.TextStyle.Height(s.Title.Text) + margin
	rows := (len(s.legend) + columns - 1) / columns
	for k := range columns {
		legend := s.Legend
		for _, l := range s.legend[min(k*rows, len(s.legend)):min((k+1)*rows, len(s.legend))] {
			legend.Add(l.name, l.line)
		}
		left := c.Size().X * vg.Length(k) / columns
		legend.Draw(draw.Crop(c, 3*margin+left, 0, 0, 0))
	}
	c.Max.Y -= vg.Length(rows) * line
	s.Title.Text, s.Legend = "", plot.NewLegend()
	s.Draw(c)
}

// measure decides on the axes. The first of many impressions are left out, and those before there are payoffs: curves
// lie on each other there.
func (s *sketch) measure(results []*Result) {
	e := results[0].experiment
	s.from = int64(math.Pow(10, math.Floor(math.Log10(float64(max(1, min(max(e.Lateness.Mean, e.Horizon/10_000), e.Horizon/100)))))))
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
	s.Title.Text = fmt.Sprintf("%s, %d items, %s", e.Scenario, e.Items, e.Late())
	if e.Runs > 1 {
		s.Title.Text += fmt.Sprintf(": mean of %d runs ± %d standard errors", e.Runs, band)
	}
	s.X.Label.Text, s.Y.Label.Text = "impressions", "regret"
	if s.negative {
		s.X.Min, s.X.Max = 0, float64(e.Horizon)
		s.X.Tick.Marker = evenly{}
		s.Y.Scale, s.Y.Tick.Marker = symmetric(s.floor), symmetric(s.floor)
		s.Y.Min, s.Y.Max = -s.floor, s.floor
	} else {
		s.X.Scale, s.X.Tick.Marker = plot.LogScale{}, powers{}
		s.X.Min, s.X.Max = float64(s.from), float64(max(e.Horizon, 2))
		s.Y.Scale, s.Y.Tick.Marker = plot.LogScale{}, powers{}
		s.Y.Min, s.Y.Max = s.floor, 10*s.floor
	}
	for _, style := range []*text.Style{&s.Title.TextStyle, &s.X.Label.TextStyle, &s.Y.Label.TextStyle, &s.X.Tick.Label, &s.Y.Tick.Label,
		&s.Legend.TextStyle} {
		style.Font.Variant = "Sans"
		style.Font.Size = 10
	}
	s.Title.TextStyle.Font.Size = 12
	s.X.Padding, s.Y.Padding = 0, 0
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{232}, color.Gray{232}
	s.Add(grid)
	s.Legend.Top, s.Legend.Left = true, true
	s.Legend.Padding = 2
	s.Legend.ThumbnailWidth = 28
}

// at makes a value that the axis can show.
func (s *sketch) at(y float64) float64 {
	if s.negative {
		return y
	}
	return max(y, s.floor)
}

func (s *sketch) curve(r *Result, c color.RGBA, dash []vg.Length) error {
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
	return s.line(r.Label(), line, draw.LineStyle{Color: c, Width: vg.Points(1.6), Dashes: dash})
}

// mark puts a dot on a curve where the burn-in ends, on average over runs.
func (s *sketch) mark(line plotter.XYs, t float64, c color.RGBA) error {
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

// bounds draws each bound once.
func (s *sketch) bounds(results []*Result) error {
	e := results[0].experiment
	drawn := map[float64]bool{}
	for k, r := range results {
		upper := e.Upper(r.combination)
		if upper == nil || drawn[*r.Bound] {
			continue
		}
		drawn[*r.Bound] = true
		c := palette[k%len(palette)]
		if err := s.function("upper bound of "+r.Label(), e, upper, draw.LineStyle{
			Color: color.NRGBA{c.R, c.G, c.B, 170}, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(8), vg.Points(4)},
		}); err != nil {
			return err
		}
	}
	if lower, ok := e.Lower(); ok {
		return s.function("lower bound (asymptotic)", e, func(t float64) float64 { return lower * math.Log(t) },
			draw.LineStyle{Color: color.Gray{110}, Width: vg.Points(1.2), Dashes: []vg.Length{vg.Points(2), vg.Points(3)}})
	}
	return nil
}

// function draws f from where it is in the picture on.
func (s *sketch) function(name string, e *Experiment, f func(float64) float64, style draw.LineStyle) error {
	var xys plotter.XYs
	for _, t := range Grid(e.Horizon) {
		if y := f(float64(t)); y == s.at(y) && t >= s.from {
			xys = append(xys, plotter.XY{X: float64(t), Y: y})
		}
	}
	if len(xys) == 0 {
		return nil
	}
	return s.line(name, xys, style)
}

func (s *sketch) line(name string, xys plotter.XYs, style draw.LineStyle) error {
	l, err := plotter.NewLine(xys)
	if err != nil {
		return err
	}
	l.LineStyle = style
	s.Add(l)
	s.legend = append(s.legend, legendEntry{name, l, xys[len(xys)-1].Y})
	return nil
}

// Label is the combination in a few words.
func (r *Result) Label() string {
	l := &r.combination.Learner
	name := r.Policy + " + " + r.Delay
	switch {
	case r.MaxInstances == nil:
	case *r.MaxInstances == 0:
		name += ", ∞ instances"
	case *r.MaxInstances == 1:
		name += ", 1 instance"
	default:
		name += fmt.Sprintf(", ≤ %d instances", *r.MaxInstances)
	}
	if l.Delay == config.Direct && r.PayoffHorizon != nil && l.Silence != config.Ages {
		name += ", silence " + r.Silence
	}
	if l.Drift > 0 {
		name += ", drift " + strconv.FormatFloat(l.Drift, 'g', -1, 64)
	}
	if l.Policy.Kind().Confident && l.Radius == config.Paper {
		name += ", radius paper"
	}
	if l.Policy.Kind().Believes && l.Prior.Kind != policy.EmpiricalPrior {
		name += ", prior " + l.Prior.Kind.String()
	}
	if l.Policy.Kind().IsAdversarial() && l.LossIndex == config.ByRank {
		name += ", losses of ranks"
	}
	if r.BurnIn != nil {
		name += ", utilities " + r.Utilities + " (dot: end of burn-in)"
	}
	return name
}

// powers marks powers of ten with a number, and their multiples without.
type powers struct{}

// Ticks implements plot.Ticker.
func (powers) Ticks(low, high float64) (ticks []plot.Tick) {
	for x := math.Pow(10, math.Floor(math.Log10(low))); x <= high*1.0001; x *= 10 {
		for k := 1.0; k < 10; k++ {
			if v := k * x; v >= low*0.9999 && v <= high*1.0001 {
				tick := plot.Tick{Value: v}
				if k == 1 {
					tick.Label = power(v)
				}
				ticks = append(ticks, tick)
			}
		}
	}
	return ticks
}

// evenly marks five steps.
type evenly struct{}

// Ticks implements plot.Ticker.
func (evenly) Ticks(low, high float64) (ticks []plot.Tick) {
	for k := range 6 {
		v := low + (high-low)*float64(k)/5
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return ticks
}

// symmetric is an axis that is linear up to about its value on either side of zero, and logarithmic beyond.
type symmetric float64

// Normalize implements plot.Normalizer.
func (s symmetric) Normalize(low, high, x float64) float64 {
	f := func(x float64) float64 { return math.Asinh(x / float64(s)) }
	return (f(x) - f(low)) / (f(high) - f(low))
}

// Ticks implements plot.Ticker.
func (s symmetric) Ticks(low, high float64) []plot.Tick {
	ticks := []plot.Tick{{Value: 0, Label: "0"}}
	for _, t := range (powers{}).Ticks(float64(s), max(high, -low)) {
		if t.Value <= high*1.0001 {
			ticks = append(ticks, t)
		}
		if t.Value <= -low*1.0001 {
			t.Value = -t.Value
			if t.Label != "" {
				t.Label = "−" + t.Label
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// power writes powers of ten, small ones in full.
func power(v float64) string {
	if v >= 0.001 && v < 2000 {
		return fmt.Sprintf("%g", math.Round(v*1000)/1000)
	}
	superscript := strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷",
		"8", "⁸", "9", "⁹")
	return "10" + superscript.Replace(fmt.Sprint(int(math.Round(math.Log10(v)))))
}

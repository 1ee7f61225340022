package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/plotting"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Sizes of a plot in points, besides package plotting's.
const (
	curves   = 300 // least height of the area of curves
	leader   = 22  // between a line's end and its label
	widest   = 140
	figures  = 10 // between a name and its value
	headroom = 10 // above the curves
)

// label stands at a line's end: name, final value, and details that distinguish it.
type label struct {
	name    string
	details []string
	final   float64
	end     float64 // final as the axis can show it
	style   draw.LineStyle
}

func (r *Result) direct() bool { return r.combination.Learner.Delay == config.Direct }

// details are settings of a combination that its policy's name does not imply, for a plot.
func (r *Result) details() (parts []string) {
	if !r.direct() && r.MaxInstances == nil {
		parts = append(parts, r.Delay) // instances are BOLD's
	}
	return append(parts, r.settings()...)
}

// Label names the combination with its settings.
func (r *Result) Label() string {
	return strings.Join(append([]string{r.Policy + " + " + r.Delay}, r.settings()...), ", ")
}

// settings are the combination's settings that differ from the defaults.
func (r *Result) settings() (parts []string) {
	l := &r.combination.Learner
	switch {
	case r.MaxInstances == nil:
	case *r.MaxInstances == 0:
		parts = append(parts, "∞ instances")
	case *r.MaxInstances == 1:
		parts = append(parts, "1 instance")
	default:
		parts = append(parts, fmt.Sprintf("≤ %d instances", *r.MaxInstances))
	}
	if r.direct() && r.PayoffHorizon != nil && l.Silence != config.Ages {
		parts = append(parts, "silence "+r.Silence)
	}
	if l.Drift > 0 {
		parts = append(parts, "drift "+strconv.FormatFloat(l.Drift, 'g', -1, 64))
	}
	if l.Policy.Spec().Confident && l.Radius == config.Paper {
		parts = append(parts, "radius paper")
	}
	if l.Policy.Spec().Believes && l.Prior.Kind != policy.EmpiricalPrior {
		parts = append(parts, "prior "+l.Prior.Kind.String())
	}
	if l.Policy.Spec().IsAdversarial() && l.LossIndex == config.ByRank {
		parts = append(parts, "losses of ranks")
	}
	if r.BurnIn != nil {
		parts = append(parts, "utilities "+r.Utilities)
	}
	return parts
}

// wrap puts words into lines up to the width room, or of one longer word.
func wrap(style text.Style, room vg.Length, words ...string) (lines []string) {
	for _, word := range words {
		if n := len(lines); n > 0 && style.Width(lines[n-1]+" "+word)*plotting.Slack <= room {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// listed puts commas behind parts, which lines do not break.
func listed(parts []string, comma string) []string {
	parts = slices.Clone(parts)
	for k := range len(parts) - 1 {
		parts[k] += comma
	}
	return parts
}

// layout places the elements of a plot.
type layout struct {
	title, notes, axis []string // lines above the curves
	head               vg.Length
	height             vg.Length
	column             vg.Length // width of labels
	values             vg.Length // allowance for values wider than measured
	details            [][]string
	extents            []extent
}

func (s *sketch) arrange() *layout {
	l := &layout{}
	name, note := plotting.Letters(plotting.Large, plotting.Ink.Light), plotting.Letters(plotting.Small, plotting.Quiet.Light)
	for _, label := range s.labels {
		value := name.Width(number(label.final))
		l.column = max(l.column, name.Width(label.name)*plotting.Slack+figures+value*plotting.Slack)
		l.values = max(l.values, value*(plotting.Slack-1))
	}
	room := max(l.column, widest)
	needed := vg.Length(0)
	for _, label := range s.labels {
		lines := wrap(note, room, listed(label.details, ",")...)
		for _, line := range lines {
			l.column = max(l.column, note.Width(line)*plotting.Slack)
		}
		l.details = append(l.details, lines)
		l.extents = append(l.extents, extent{
			above: plotting.Large * plotting.Leading / 2, below: plotting.Large*plotting.Leading/2 + plotting.Small*plotting.Leading*vg.Length(len(lines)),
		})
		needed += l.extents[len(l.extents)-1].size()
	}
	const whole = plotting.Width - 2*plotting.Margin
	l.title = wrap(name, whole, strings.Fields(s.title)...)
	l.notes = wrap(note, whole, listed(s.notes, ";")...)
	l.axis = wrap(note, whole, strings.Fields(s.axes[1])...)
	l.head = plotting.Margin + vg.Length(len(l.title))*plotting.Large*plotting.Leading + vg.Length(len(l.notes)+len(l.axis))*plotting.Small*plotting.Leading + headroom
	l.height = l.head + max(curves, needed) + s.foot()
	return l
}

func (s *sketch) foot() vg.Length {
	return s.X.Tick.Length + 2*plotting.Small*plotting.Leading + plotting.Margin
}

// draw draws, from top to bottom, titles, curves with labels on the right, and the axis of impressions.
func (s *sketch) draw(c draw.Canvas, l *layout) {
	note, name := plotting.Letters(plotting.Small, plotting.Quiet.Light), plotting.Letters(plotting.Large, plotting.Ink.Light)
	y := c.Max.Y - plotting.Margin
	write := func(style text.Style, lines []string) {
		for _, line := range lines {
			c.FillText(style, vg.Point{X: c.Min.X + plotting.Margin, Y: y - style.Font.Size}, line)
			y -= style.Font.Size * plotting.Leading
		}
	}
	write(name, l.title)
	write(note, l.notes)
	write(note, l.axis)

	left := plotting.Width - plotting.Margin - l.column // of the labels
	ticks := s.X.Tick.Marker.Ticks(s.X.Min, s.X.Max)
	end := s.X.Tick.Label.Width(ticks[len(ticks)-1].Label) / 2 // of the axis, beyond the curves
	area := draw.Crop(c, plotting.Margin, min(0, left-leader+end-plotting.Width), plotting.Small*plotting.Leading+plotting.Margin, -l.head)
	s.Draw(area)
	data := s.DataCanvas(area)
	under := note
	under.XAlign = text.XCenter
	c.FillText(under, vg.Point{X: data.Center().X, Y: c.Min.Y + plotting.Margin}, s.axes[0])

	wanted := make([]vg.Length, len(s.labels))
	for k, label := range s.labels {
		wanted[k] = data.Y(s.Y.Norm(label.end))
	}
	value := name
	value.XAlign = text.XRight
	for k, at := range spread(wanted, l.extents, data.Min.Y, data.Max.Y+headroom) {
		label := s.labels[k]
		thin := draw.LineStyle{Color: label.style.Color, Width: vg.Points(1), Dashes: label.style.Dashes}
		c.StrokeLines(thin, []vg.Point{{X: data.Max.X, Y: wanted[k]}, {X: left - 4, Y: at}})
		baseline := at - 0.45*plotting.Large
		c.FillText(name, vg.Point{X: left, Y: baseline}, label.name)
		c.FillText(value, vg.Point{X: plotting.Width - plotting.Margin - l.values, Y: baseline}, number(label.final))
		for _, line := range l.details[k] {
			baseline -= plotting.Small * plotting.Leading
			c.FillText(note, vg.Point{X: left, Y: baseline}, line)
		}
	}
}

package lab

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/ranker-worker/ranker-worker/internal/plotting"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"pgregory.net/rapid"
)

// texts are the texts of an SVG; it fails where it is no XML.
func texts(t *testing.T, svg []byte) string {
	t.Helper()
	var all strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok {
			all.Write(text)
			all.WriteByte('\n')
		}
	}
}

func TestPlot_HasEveryCurveAndBound(t *testing.T) {
	e := &Experiment{Scenario: "blocks", Items: 5, Horizon: 2000, Runs: 3, Seed: 1}
	settings := Settings{Policies: []string{"elimination", "greedy", "utility"}}
	results, err := Run(t.Context(), e, combine(t, e, settings))
	require.NoError(t, err)
	var svg bytes.Buffer
	require.NoError(t, Plot(&svg, "svg", results))
	written := texts(t, svg.Bytes())
	for _, want := range []string{
		"elimination\n", "qpmd\n", "greedy\n", "utility\n", "lower bound\n", "upper bound\n", "of elimination, qpmd",
		"blocks, 5 items, payoffs 0 late\n", "mean of 3 runs ± 2 standard errors; delay direct where none is named\n",
		"impressions (logarithmic)\n", "regret, in units of payoff", "\n1,000\n",
	} {
		require.Contains(t, written, want)
	}
	for _, r := range results {
		require.Contains(t, written, "\n"+number(r.Regret.Mean)+"\n", r.Policy)
		require.Contains(t, svg.String(), `stroke="`+plotting.Hex(plotting.ColourOf(r.Policy))+`"`)
	}
	require.NotContains(t, svg.String(), `fill="`+plotting.Hex(plotting.Ground.Light))
	var again bytes.Buffer
	require.NoError(t, Plot(&again, "svg", results))
	require.Equal(t, svg.Bytes(), again.Bytes())

	var raster bytes.Buffer
	require.NoError(t, Plot(&raster, "png", results))
	drawn, err := png.Decode(&raster)
	require.NoError(t, err)
	require.Greater(t, drawn.Bounds().Dx(), 1000)
	require.Equal(t, plotting.Ground.Light, color.RGBAModel.Convert(drawn.At(0, 0)))
}

// Regret that ends below zero, horizons of one impression, and no regret at all can be drawn too.
func TestPlot_OddResults(t *testing.T) {
	for _, e := range []*Experiment{
		{Scenario: "switching", Items: 10, Horizon: 200, Runs: 2, Seed: 1},
		{Scenario: "switching", Items: 10, Horizon: 1, Runs: 1, Seed: 1},
		{Scenario: "lazy", Items: 1, Horizon: 10, Runs: 2, Seed: 1},
	} {
		results, err := Run(t.Context(), e, combine(t, e, Settings{Policies: []string{"greedy", "utility"}}))
		require.NoError(t, err)
		for _, mean := range []float64{results[0].Regret.Mean, -5} {
			results[0].Regret.Mean = mean
			results[0].Curve[len(results[0].Curve)-1].Regret = mean
			for _, format := range []string{"svg", "png"} {
				require.NoError(t, Plot(io.Discard, format, results))
			}
		}
	}
	require.Error(t, Plot(io.Discard, "svg", nil))
	for _, name := range []string{"x", "x.pdf", "svg"} {
		_, err := plotting.Format(name)
		require.Error(t, err)
	}
}

// However many lines there are, and wherever they end, their labels stand in the order of the final values, within the picture,
// and not on each other.
func TestPlot_LabelsHaveRoom(t *testing.T) {
	e := &Experiment{Scenario: "conversions", Items: 4, Horizon: 300, Runs: 2, Seed: 1}
	all, err := Run(t.Context(), e, combine(t, e, Settings{
		Policies: []string{"moss", "elimination"}, Delays: []string{"direct", "qpmd"},
		Silences: []string{"waits", "at_once", "ages"}, Drifts: []string{"0", "0.1"},
	}))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		results := rapid.Permutation(all).Draw(t, "results")[:rapid.IntRange(1, len(all)).Draw(t, "n")]
		least := rapid.SampledFrom([]float64{-1e4, 0, 1}).Draw(t, "least")
		finals := map[string]float64{}
		for k, r := range results {
			result := *r
			result.Regret.Mean = rapid.Float64Range(least, 1e5).Draw(t, "final")
			result.Curve = slices.Clone(r.Curve[len(r.Curve)-3:])
			result.Curve[2].Regret = result.Regret.Mean
			results[k] = &result
			finals[number(result.Regret.Mean)] = result.Regret.Mean
		}
		var svg bytes.Buffer
		require.NoError(t, Plot(&svg, "svg", results))
		texts, bounds := places(t, svg.Bytes())
		at := slices.IndexFunc(texts, func(p place) bool { return strings.HasPrefix(p.Content, "impressions") })
		labels := texts[at+1:]
		values := 0
		for k, p := range labels {
			require.Greater(t, p.X, bounds[0]/3)
			require.Less(t, p.X, bounds[0])
			require.Greater(t, p.Y, 0.0)
			require.Less(t, p.Y, bounds[1])
			final, isValue := finals[p.Content]
			if !isValue {
				continue
			}
			require.Equal(t, labels[k-1].Y, p.Y, "the name stands before its value")
			for _, other := range labels[:k-1] {
				require.GreaterOrEqual(t, other.Y-p.Y, 13.0, "%v lies on %v", p, other)
				if before, ok := finals[other.Content]; ok {
					require.LessOrEqual(t, before, final, "%v lies above %v", p, other)
				}
			}
			values++
		}
		require.Equal(t, len(results), values)
	})
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", -1e-9: "0", 1: "1", 0.001: "0.001", 0.0312: "0.031", 9.96: "10", 9.94: "9.9", -0.25: "−0.25", 12.5: "13",
		999.6: "1,000", 1e6: "1,000,000", -10890.4: "−10,890",
	} {
		require.Equal(t, want, number(v))
	}
	require.Equal(t, "2,000 of 10 007 in geometric:1,000, 00017, 123456789012345678901",
		separated("2000 of 10 007 in geometric:1000, 00017, 123456789012345678901"))
}

// Numbers on axes are all written alike, and there are few enough to be read.
func TestTicks(t *testing.T) {
	for name, c := range map[string]struct {
		ticks     []plot.Tick
		want      string
		unlabeled int
	}{
		"powers":      {powers{1}.Ticks(100, 100_000), "100 1,000 10,000 100,000", 24},
		"from beside": {powers{1}.Ticks(30, 1_500), "100 1,000", 15},
		"many":        {powers{3}.Ticks(1, 1e10), "1 1,000 1,000,000 1,000,000,000", 7},
		"small":       {powers{1}.Ticks(0.01, 1), "0.01 0.1 1", 16},
		"evenly":      {evenly{}.Ticks(0, 100_000), "0 25,000 50,000 75,000 100,000", 0},
		"long":        {evenly{}.Ticks(0, 1e9), "0 500,000,000 1,000,000,000", 0},
		"symmetric":   {symmetric(1000).Ticks(-1500, 10_000), "0 1,000 −1,000 10,000", 8},
	} {
		var labels []string
		unlabeled := 0
		for _, tick := range c.ticks {
			if tick.Label == "" {
				unlabeled++
			} else {
				labels = append(labels, tick.Label)
			}
		}
		require.Equal(t, c.want, strings.Join(labels, " "), name)
		require.Equal(t, c.unlabeled, unlabeled, name)
	}
}

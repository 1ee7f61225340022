package lab

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// texts are what an SVG writes; it fails where it is no XML.
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
	e := &Experiment{Scenario: Blocks, Items: 5, Horizon: 2000, Runs: 3, Seed: 1}
	settings := Settings{Policies: []string{"elimination", "greedy", "utility"}}
	results, err := Run(t.Context(), e, combine(t, e, settings))
	require.NoError(t, err)
	var svg bytes.Buffer
	require.NoError(t, Plot(&svg, "svg", results))
	written := texts(t, svg.Bytes())
	for _, want := range []string{
		"elimination + qpmd", "greedy + ", "utility + ", "lower bound", "upper bound of elimination", "blocks, 5 items, payoffs 0 late: mean of 3 runs ± 2 standard errors", "impressions", "1000",
	} {
		require.Contains(t, written, want)
	}
	var again bytes.Buffer
	require.NoError(t, Plot(&again, "svg", results))
	require.Equal(t, svg.Bytes(), again.Bytes())

	var raster bytes.Buffer
	require.NoError(t, Plot(&raster, "png", results))
	picture, err := png.Decode(&raster)
	require.NoError(t, err)
	require.Greater(t, picture.Bounds().Dx(), 1000)
}

// Regret that ends below zero, horizons of one impression, and no regret at all can be drawn too.
func TestPlot_OddResults(t *testing.T) {
	for _, e := range []*Experiment{
		{Scenario: Switching, Items: 10, Horizon: 200, Runs: 2, Seed: 1},
		{Scenario: Switching, Items: 10, Horizon: 1, Runs: 1, Seed: 1},
		{Scenario: Lazy, Items: 1, Horizon: 10, Runs: 2, Seed: 1},
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
		_, err := PlotFormat(name)
		require.Error(t, err)
	}
}

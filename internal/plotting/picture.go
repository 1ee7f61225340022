// Package plotting has the common parts of the program's plots: sizes, themes for light and dark pages, and Write, which renders
// SVG or PNG.
package plotting

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes of a plot in points. Letters are large for its width, which a phone halves.
const (
	Width   = 540
	Margin  = 8
	Large   = 15.0 // letters of titles and names
	Small   = 13.0
	Leading = 1.25 // height of a line of text, in letters
	Slack   = 1.15 // allowance for a reader's font being wider than the measured one
)

// Format returns svg or png by a file's name. It fails for others.
func Format(file string) (string, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".svg":
		return "svg", nil
	case ".png":
		return "png", nil
	}
	return "", fmt.Errorf("%q must end in .svg or .png", file)
}

func Letters(size vg.Length, c color.Color) text.Style {
	f := font.From(plot.DefaultFont, size)
	f.Variant = "Sans"
	return text.Style{Color: c, Font: f, Handler: plot.DefaultTextHandler}
}

// Write renders a plot of the width Width. An SVG has no background and text in the reader's theme; a PNG is light.
func Write(w io.Writer, format string, height vg.Length, paint func(draw.Canvas)) (err error) {
	var b bytes.Buffer
	if format == "png" {
		c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(Width, height), vgimg.UseDPI(144))}
		c.SetColor(Ground.Light)
		c.Fill(vg.Rectangle{Max: vg.Point{X: Width, Y: height}}.Path())
		paint(draw.New(c))
		_, err = c.WriteTo(&b)
	} else {
		c := vgsvg.New(Width, height)
		paint(draw.New(c))
		_, err = c.WriteTo(&b)
	}
	if err != nil {
		return fmt.Errorf("making the plot: %w", err)
	}
	content := b.Bytes()
	if format != "png" {
		if content, err = themed(content); err != nil {
			return err
		}
	}
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("writing the plot: %w", err)
	}
	return nil
}

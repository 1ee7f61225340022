// Package plotting draws for light and dark pages: what pictures of the program have in common.
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

// What a picture measures, in points. Letters are large for its width: on a phone it has half of it.
const (
	Width   = 540
	Margin  = 8
	Large   = 15.0 // letters of titles and names
	Small   = 13.0
	Leading = 1.25 // the height of a line of text, in letters
	Slack   = 1.15 // how much wider a reader's font may be than the one measured
)

// Format is svg or png, by a file's name.
func Format(file string) (string, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".svg":
		return "svg", nil
	case ".png":
		return "png", nil
	}
	return "", fmt.Errorf("%q must end in .svg or .png", file)
}

// Letters is a style of text.
func Letters(size vg.Length, c color.Color) text.Style {
	f := font.From(plot.DefaultFont, size)
	f.Variant = "Sans"
	return text.Style{Color: c, Font: f, Handler: plot.DefaultTextHandler}
}

// Write writes a picture of the width Width. An SVG has no background and takes its text's colours from the reader's theme, light or
// dark; a PNG is light.
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

package lab

import (
	"encoding/xml"
	"fmt"

	"github.com/stretchr/testify/require"
)

// place is a text of a picture, and where.
type place struct {
	X       float64 `xml:"x,attr"`
	Y       float64 `xml:"y,attr"`
	Size    string  `xml:"font-size,attr"`
	Content string  `xml:",chardata"`
}

// places are the texts of a picture, whose y falls.
func places(t require.TestingT, svg []byte) (all []place, bounds [2]float64) {
	var picture struct {
		ViewBox string `xml:"viewBox,attr"`
		Group   struct {
			Texts []place `xml:"text"`
		} `xml:"g"`
	}
	require.NoError(t, xml.Unmarshal(svg, &picture))
	var zero float64
	_, err := fmt.Sscan(picture.ViewBox, &zero, &zero, &bounds[0], &bounds[1])
	require.NoError(t, err)
	for _, p := range picture.Group.Texts {
		p.Y += bounds[1] // from the bottom-left corner, downwards
		all = append(all, p)
	}
	return all, bounds
}

package policy

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

type rgb [3]float64

// linear reads a colour as light: sRGB without its gamma.
func linear(t *testing.T, colour string) (c rgb) {
	t.Helper()
	require.Regexp(t, `^#[0-9a-f]{6}$`, colour)
	for k := range c {
		x, err := strconv.ParseUint(colour[1+2*k:3+2*k], 16, 8)
		require.NoError(t, err)
		if c[k] = float64(x) / 255; c[k] <= 0.04045 {
			c[k] /= 12.92
		} else {
			c[k] = math.Pow((c[k]+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) times(m [9]float64) (o rgb) {
	for k := range o {
		o[k] = m[3*k]*c[0] + m[3*k+1]*c[1] + m[3*k+2]*c[2]
	}
	return o
}

// contrast is that of the Web Content Accessibility Guidelines, which ask for 3 for graphics.
func contrast(a, b rgb) float64 {
	light := func(c rgb) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] + 0.05 }
	return max(light(a), light(b)) / min(light(a), light(b))
}

// perceived is OKLab (B. Ottosson, 2020), in hundredths.
func perceived(c rgb) rgb {
	cones := c.times([9]float64{0.4122214708, 0.5363325363, 0.0514459929, 0.2119034982, 0.6806995451, 0.1073969566, 0.0883024619, 0.2817188376, 0.6299787005})
	for k := range cones {
		cones[k] = 100 * math.Cbrt(max(0, cones[k]))
	}
	return cones.times([9]float64{0.2104542553, 0.7936177850, -0.0040720468, 1.9779984951, -2.4285922050, 0.4505937099, 0.0259040371, 0.7827717662, -0.8086757660})
}

// eyes are those who see all colours and those who lack one kind of cones (G. Machado, M. Oliveira, L. Fernandes, "A
// physiologically-based model for simulation of color vision deficiency", 2009, severity 1).
var eyes = map[string][9]float64{
	"all colours": {1, 0, 0, 0, 1, 0, 0, 0, 1},
	"deuteranope": {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
	"protanope":   {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
	"tritanope":   {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900},
}

// Each policy has a colour that is visible on light and dark pages. All readers can distinguish it from the others': by some three
// times the least visible difference, which is two of OKLab's hundredths.
func TestKinds_ColoursAreVisibleAndDistinct(t *testing.T) {
	for k, kind := range Specs {
		c := linear(t, kind.Colour)
		for _, page := range []string{"#ffffff", "#0d1117", "#181e28"} {
			require.GreaterOrEqual(t, contrast(c, linear(t, page)), 3.0, "%s (%s) on %s", kind.Name, kind.Colour, page)
		}
		for _, other := range Specs[:k] {
			require.NotEqual(t, kind.Colour, other.Colour)
			for who, m := range eyes {
				a, b := perceived(c.times(m)), perceived(linear(t, other.Colour).times(m))
				d := math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), a[2]-b[2])
				require.Greater(t, d, 6.0, "%s and %s, to a %s", kind.Name, other.Name, who)
			}
		}
	}
}

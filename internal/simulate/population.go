package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// Population is a catalogue of items and its users. It is immutable and safe for concurrent use.
type Population struct {
	config    Config
	names     []string
	worth     [2]worth  // before and after the switch
	utilities []float64 // without the taste of an impression
	windows   []float64 // prefix sums of the windows of an impression
}

// worth holds the payoffs of a catalogue's items.
type worth struct {
	centres []float64 // of payoffs before clipping
	means   []float64 // of payoffs as drawn
}

// Streams of random numbers of one seed: users and the events after a selection have their own, which never interfere.
const (
	streamCatalogue = iota
	streamImpression
	streamResponse
	streamOrphan
	streamSwitch
	streams
)

// rng returns the generator of a stream of impression k.
func (p *Population) rng(stream, k int) *rand.Rand {
	return rand.New(rand.NewPCG(p.config.Seed, mix(uint64(k)*streams+uint64(stream))))
}

// mix is SplitMix64's finaliser: PCG generators with neighbouring seeds begin with similar numbers.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// meanSpread is the standard deviation of mean payoffs, around 1/2.
const meanSpread = 0.2

// NewPopulation draws a catalogue. Mean payoffs are normal around 1/2, clipped to [0.02, 0.98]; utilities are standard normal with
// correlation Alignment. It fails with ErrConfig, naming all faults.
func NewPopulation(config Config) (*Population, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("simulated users: %w", err)
	}
	q := config.Windows.Fold(make([]float64, config.Candidates))
	p := &Population{config: config, windows: admissible.Prefix(q, q)}
	rng := p.rng(streamCatalogue, 0)
	width := len(strconv.Itoa(config.Items - 1))
	spread := math.Sqrt(1 - config.Alignment*config.Alignment)
	for i := range config.Items {
		worth, own := rng.NormFloat64(), rng.NormFloat64()
		p.names = append(p.names, fmt.Sprintf("item-%0*d", width, i))
		p.worth[0].add(&config, worth)
		p.utilities = append(p.utilities, config.Alignment*worth+spread*own)
	}
	rng = p.rng(streamSwitch, 0)
	for _, utility := range p.utilities {
		p.worth[1].add(&config, config.Alignment*utility+spread*rng.NormFloat64())
	}
	return p, nil
}

// add draws an item's payoffs, for a worth in standard deviations.
func (w *worth) add(config *Config, worth float64) {
	centre := min(max(0.5+meanSpread*worth, 0.02), 0.98)
	mean := centre
	if config.Payoffs == Gaussian {
		mean = ClippedMean(centre, config.Noise)
	}
	w.centres = append(w.centres, centre)
	w.means = append(w.means, mean)
}

func (p *Population) worthAt(k int) *worth {
	if p.config.SwitchAt > 0 && k >= p.config.SwitchAt {
		return &p.worth[1]
	}
	return &p.worth[0]
}

// Hindsight returns mean payoffs over the first n impressions, by item number, which define the best fixed order.
func (p *Population) Hindsight(n int) []float64 {
	late := 0.0
	if p.config.SwitchAt > 0 && n > p.config.SwitchAt {
		late = float64(n-p.config.SwitchAt) / float64(n)
	}
	means := make([]float64, p.config.Items)
	for i := range means {
		means[i] = (1-late)*p.worth[0].means[i] + late*p.worth[1].means[i]
	}
	return means
}

// ClippedMean returns the mean of a normal variable clipped to [0,1].
func ClippedMean(mean, sd float64) float64 {
	cdf := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	pdf := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	low, high := (0-mean)/sd, (1-mean)/sd
	return mean*(cdf(high)-cdf(low)) + sd*(pdf(low)-pdf(high)) + 1 - cdf(high)
}

// Config returns the configuration with defaults.
func (p *Population) Config() Config { return p.config }

type Impression struct {
	Number     int
	ID         string
	Time       int64       // milliseconds
	Candidates []Candidate // in no particular order

	// Hidden from the worker.
	Items   []int     // item numbers, in the order of Candidates
	Means   []float64 // their mean payoffs
	Payoffs []float64 // payoff of each if selected by this user
	Window  int       // attention window, in 1..len(Candidates)
}

// Impression draws impression k ≥ 0, a function of population and k.
func (p *Population) Impression(k int) *Impression {
	rng := p.rng(streamImpression, k)
	n := p.config.Candidates
	im := &Impression{
		Number: k, ID: ImpressionID(k), Time: p.config.Start + int64(k)*p.config.Interval.Milliseconds(),
		Candidates: make([]Candidate, n), Items: sample(rng, p.config.Items, n),
		Means: make([]float64, n), Payoffs: make([]float64, n),
		Window: Window(p.windows, rng.Float64()),
	}
	pays := p.worthAt(k)
	// One draw for all candidates: rankings differ in selections, not in luck.
	luck, bell := rng.Float64(), rng.NormFloat64()
	for i, item := range im.Items {
		im.Candidates[i] = Candidate{
			Item: p.names[item], Utility: p.utilities[item] + p.config.Taste*rng.NormFloat64(),
		}
		im.Means[i] = pays.means[item]
		switch p.config.Payoffs {
		case Bernoulli:
			if luck < pays.means[item] {
				im.Payoffs[i] = 1
			}
		case Gaussian:
			im.Payoffs[i] = min(max(pays.centres[item]+p.config.Noise*bell, 0), 1)
		}
	}
	return im
}

func ImpressionID(k int) string { return "i-" + strconv.Itoa(k) }

// ImpressionNumber inverts ImpressionID; ok is false for other ids.
func ImpressionNumber(id string) (k int, ok bool) {
	if len(id) < 3 || id[:2] != "i-" {
		return 0, false
	}
	k, err := strconv.Atoi(id[2:])
	return k, err == nil && k >= 0 && ImpressionID(k) == id
}

// sample draws k distinct numbers below n in random order, in O(k): Floyd's algorithm, then a shuffle.
func sample(rng *rand.Rand, n, k int) []int {
	drawn := make([]int, 0, k)
	seen := make(map[int]bool, k)
	for top := n - k; top < n; top++ {
		x := rng.IntN(top + 1)
		if seen[x] {
			x = top
		}
		seen[x] = true
		drawn = append(drawn, x)
	}
	rng.Shuffle(k, func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn
}

func logUniform(rng *rand.Rand, from, to time.Duration) time.Duration {
	low, high := math.Log(float64(from)), math.Log(float64(to))
	d := time.Duration(math.Exp(low + rng.Float64()*(high-low)))
	return min(max(d, from), to) // rounding
}

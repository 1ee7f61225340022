//go:build !race

package lab

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This file compares expired weights by age, where payoffs come in parts, with a model of the parts' ages in their place (T. M.
// McDonald et al., "Impatient bandits: Optimizing recommendations for the long-term without delay", KDD 2023). The decision against
// such a model in the worker rests on it.

// fewTraces is the number of runs of the two learners that have to be compared.
const fewTraces = 12

var (
	tracesRuns  = flag.Int("traces-runs", fewTraces, "how many runs silence and traces are compared in; more than 12 are of all learners")
	tracesSeed  = flag.Uint64("traces-seed", 7, "of which seed")
	tracesChurn = flag.Bool("traces-churn", false, "whether items of traces come and go: one in 100 impressions, of 20,000")
	tracesCDNOW = flag.String("traces-cdnow", "", "the file CDNOW_master.txt: customers of scenario customers are those in it")
)

// TestSilence_LearnsFromPartsAsMuchAsTraces: with expired weights by age, sums lose about as much as with traces, or less, on
// customers by far. They lose more only where items that pay much early pay little late; there the loss is that of waiting. Seeds
// are fixed.
func TestSilence_LearnsFromPartsAsMuchAsTraces(t *testing.T) {
	if *tracesCDNOW != "" {
		theCustomers(t, *tracesCDNOW)
	}
	for _, s := range []Scenario{"traces", "traces-alike", "traces-contrary"} {
		if *tracesChurn {
			d := s.definition()
			still := *d
			t.Cleanup(func() { d.fewer, d.impressions, d.delays.replaced = still.fewer, still.impressions, 0 })
			d.fewer, d.impressions, d.delays.replaced = true, 20_000, 100
		}
	}
	for _, x := range []struct {
		scenario Scenario
		items    int
		ends     []int64
		most     float64 // of the loss with traces, by the best law
		law      int
	}{
		{"traces-alike", 20, []int64{70, 300, 900, 1800}, 1.1, 2},
		{"traces", 20, []int64{70, 300, 900, 1800}, 1.25, 2},
		{"traces-contrary", 20, []int64{70, 300, 900, 1800}, 1.25, 0},
		{"customers", 8, []int64{70, 300, 900, 1800, 3640}, 1, 2},
		{"customers", 96, []int64{70, 300, 900, 1800, 3640}, 1.1, 2},
	} {
		e := &Experiment{Scenario: x.scenario, Items: x.items, Horizon: x.scenario.DefaultHorizon(), Runs: *tracesRuns, Seed: *tracesSeed}
		if *tracesChurn && x.scenario == "customers" {
			continue
		}
		all := combine(t, e, Settings{Policies: []string{"moss"}, Silences: []string{"waits", "at_once", "ages"}})
		names := []string{"waits", "at_once", "ages", "traces", "traces, model known"}
		for _, given := range []*traceModel{nil, tracesOf(x.scenario)} {
			if given != nil || len(all) == 3 {
				c := *all[0]
				c.new = newTraces(t, x.scenario, x.ends, given)
				all = append(all, &c)
			}
		}
		const traces = 3 // in names
		row, lost := fmt.Sprintf("%s, %d items:", x.scenario, x.items), map[int]float64{}
		for k, c := range all {
			if *tracesRuns <= fewTraces && k != x.law && k != traces {
				continue
			}
			results, err := Run(context.Background(), e, []*Combination{c})
			require.NoError(t, err)
			lost[k] = results[0].Regret.Mean
			row += fmt.Sprintf(" %s %.1f ± %.1f,", names[k], lost[k], *results[0].Regret.Stderr)
		}
		if *tracesRuns > fewTraces {
			e.AtOnce = true
			known, err := Run(context.Background(), e, all[:1])
			require.NoError(t, err)
			row += fmt.Sprintf(" known at once %.1f ± %.1f", known[0].Regret.Mean, *known[0].Regret.Stderr)
		}
		t.Log(row)
		if !*tracesChurn {
			require.Less(t, lost[x.law], x.most*lost[traces], row)
		}
	}
}

// theCustomers makes scenario customers, for this test, those of a file: lines of a customer, a day, a number of discs and dollars.
func theCustomers(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	first := map[string]time.Time{}
	at := map[string]int{}
	var all [][]purchase
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		day, err := time.Parse("20060102", words[1])
		if err != nil {
			continue // the heading
		}
		spent, err := strconv.ParseFloat(words[len(words)-1], 64)
		require.NoError(t, err)
		if _, known := at[words[0]]; !known {
			at[words[0]], first[words[0]] = len(all), day
			all = append(all, nil)
		}
		of, days := &all[at[words[0]]], day.Sub(first[words[0]]).Hours()/24
		switch {
		case len(*of) > 0 && days == 0:
			(*of)[0].spent += spent
		case days < customerDays:
			*of = append(*of, purchase{days / 7, spent})
		}
	}
	x := Scenario("customers").definition().delays
	modelled := x.course
	t.Cleanup(func() { x.course = modelled })
	x.course = func(items int, draws *stream) paymentSchedule { return dealt(slices.Clone(all), items, draws) }
}

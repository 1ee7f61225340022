package flatlog

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

func readAll(log string) (rows []Row, err error) {
	r, _, err := Open("f", strings.NewReader(log), config.Range{Min: 0, Max: 1})
	if err != nil {
		return nil, err
	}
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		one := *row
		one.Items = append([]int32(nil), row.Items...)
		rows = append(rows, one)
	}
}

// TestForms: the same selections in all forms are the same rows, whatever else a line of JSON has.
func TestForms(t *testing.T) {
	inJSON := `{"flat":1}
{"time":"2026-11-01T00:00:00Z","action":"b","payoff":1,"candidates":["b","a"],"propensities":[0.25,0.75],"items":3,"at":9,"p":9,"began":0}
{"time":"2026-11-01T00:00:01Z","action":"a","payoff":0,"candidates":["a","b","c"],"propensities":[0.5,0.25,0.25]}
`
	inCSV := `time,action,payoff,candidates,propensities
2026-11-01T00:00:00Z,b,1,b|a,0.25|0.75
2026-11-01T00:00:01Z,a,0,a|b|c,0.5|0.25|0.25
`
	dsjson := `{"_label_cost":-1,"_label_probability":0.25,"_label_Action":2,"_labelIndex":1,"Timestamp":"2026-11-01T00:00:00Z","a":[2,1],"c":{"_multi":[{"_tag":"a","x":1},{"_tag":"b"}]},"p":[0.25,0.75]}
{"_label_cost":0,"Timestamp":"2026-11-01T00:00:01Z","a":[1,2,3],"c":{"_multi":[{"_tag":"a"},{"_tag":"b"},{"_tag":"c"}]},"p":[0.5,0.25,0.25]}
`
	want, err := readAll(inJSON)
	require.NoError(t, err)
	require.Len(t, want, 2)
	require.Equal(t, 0.25, want[0].P)
	for _, log := range []string{inCSV, dsjson} {
		require.True(t, IsLog([]byte(log)))
		got, err := readAll(log)
		require.NoError(t, err, log)
		require.Equal(t, want, got, log)
	}
	require.True(t, IsLog([]byte(inJSON)))
	require.False(t, IsLog([]byte("item,selections,payoffs\na,1,1\n")))
}

func TestFormsSayTheirFaults(t *testing.T) {
	const columns = "action,payoff,candidates,propensity,target:new\n"
	for log, want := range map[string]string{
		"action,payoff,candidates,propensities\na,1,a|b,0.5|NaN\n": "f:2: propensities has a probability of NaN",
		"action,payoff\na,1\n":                          "f:1: the column candidates is missing",
		"action,payoff,candidates,price\n":              `f:1: it has no column "price"`,
		columns + "a,1,a|b,0.5\n":                       "f:2: record on line 1: wrong number of fields",
		columns + "a,much,a|b,0.5,1|0\n":                `f:2: payoff: "much" is no number`,
		columns + "a,1,a|b,0.5,1|\n":                    `f:2: target:new: "1|" is no list`,
		columns + "c,1,a|b,0.5,1|0\n":                   `f:2: action "c" is not among the candidates`,
		columns + "a,,a|b,0.5,1|0\n":                    "f:2: payoff is missing",
		`{"_label_cost":1}`:                             "f:1: it is no decision",
		`{"_label_cost":0,"a":[1,2],"p":[1]}`:           "f:1: 2 actions have 1 probabilities",
		`{"_label_cost":0,"a":[1],"p":[1],"pdrop":0.5}`: "f:1: pdrop is 0.5",
		`{"_label_cost":3,"a":[1],"p":[1]}`:             "f:1: payoff -3 lies outside",
	} {
		_, err := readAll(log)
		require.ErrorContains(t, err, want, log)
	}
}

func TestTargetsInCSV(t *testing.T) {
	rows, err := readAll("action,payoff,candidates,propensity,slot,target:new\na,1,a|b,0.5,top,0.9|0.1\n")
	require.NoError(t, err)
	require.Equal(t, map[string][]float64{"new": {0.9, 0.1}}, rows[0].Targets)
	require.Equal(t, "top", rows[0].Slot)
}

func TestRow_NamesACandidateTwice(t *testing.T) {
	_, err := readAll("action,candidates,payoff,propensity\n7,7|8|7,1,0.5\n")
	require.ErrorContains(t, err, `candidate "7" is there twice`)
}

// BenchmarkRow reads one row: its time is in proportion to its candidates.
func BenchmarkRow(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprintf("candidates=%d", n), func(b *testing.B) {
			var names []string
			for i := range n {
				names = append(names, strconv.Itoa(i))
			}
			log := "action,candidates,payoff,propensity\n7," + strings.Join(names, "|") + ",1,0.5\n"
			for b.Loop() {
				_, err := readAll(log)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/candidate")
		})
	}
}

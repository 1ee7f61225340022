package sizing

import (
	"fmt"
	"io"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
)

// Bytes formats bytes in decimal units: 1 kB is 1,000.
func Bytes(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= unit.size {
			if n >= 100*unit.size {
				return fmt.Sprintf("%.0f %s", n/unit.size, unit.name)
			}
			return fmt.Sprintf("%.1f %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.0f bytes", n)
}

func Write(out io.Writer, w *Workload, e *Estimate) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s impressions/s of %s candidates, %s items; %.4g%% selected from, %.4g%% of these paid, after %s\n",
		counted(w.Rate), counted(float64(w.Candidates)), counted(float64(w.Items)), 100*w.Selected, 100*w.Paid, config.FormatDuration(w.PaidAfter))
	remembered := "for " + config.FormatDuration(w.Remember)
	if w.Remember == config.UntilHorizon {
		remembered = "until the payoff deadline and " + config.FormatDuration(w.ParkingTime) + " after it"
	}
	fmt.Fprintf(&b, "horizon %s, selection timeout %s, remembered %s; %s, %s\n", config.FormatDuration(w.PayoffHorizon), config.FormatDuration(w.SelectionTimeout), remembered,
		several(w.Partitions, "partition"), several(w.Workers, "worker"))
	fmt.Fprintf(&b, "%s ids at a time: %s undecided, %s selected from, %s ended\n\n", counted(e.IDs.All()), counted(e.IDs.Undecided), counted(e.IDs.Selected), counted(e.IDs.Ended))

	table := func(title string, s Sum, amount func(float64) string) {
		fmt.Fprintf(&b, "%-32s%9s\n", title, amount(s.Total()))
		for i := range s {
			fmt.Fprintf(&b, "  %-30s%9s   %s\n", s[i].Name, amount(s[i].Amount), s[i].Formula)
		}
	}
	table("Redis holds", e.Redis, Bytes)
	table("A worker's memory", e.Worker, Bytes)
	table("Kafka keeps a day, each copy", e.Kafka, Bytes)
	table("Redis' commands a second", e.Commands, counted)
	table("Workers' busy cores", e.Cores, cores)
	table("Redis' busy cores", e.Server, cores)
	b.WriteString("\nLeave Redis as much again for copy-on-write while it saves, and no core more than half busy.\n")
	largest := func(what string, s Sum) {
		p := s.Largest()
		fmt.Fprintf(&b, "Most of %s (%.0f%%): %s.", what, 100*p.Amount/s.Total(), p.Name)
		if p.Setting != "" {
			fmt.Fprintf(&b, " The setting for it: %s.", p.Setting)
		}
		b.WriteString("\n")
	}
	largest("Redis's memory", e.Redis)
	largest("a worker's memory", e.Worker[:len(e.Worker)-1])
	for _, warning := range e.Warnings {
		fmt.Fprintf(&b, "Warning: %s.\n", warning)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func cores(n float64) string { return fmt.Sprintf("%.2f", n) }

func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return counted(float64(n)) + " " + what + "s"
}

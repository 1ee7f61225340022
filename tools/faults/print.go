package faults

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

func (r *Result) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-55s %8s %8s\n", "fault", "injected", "unfit")
	kinds := maps.Clone(r.Injected)
	for kind := range r.Unfit {
		kinds[kind] += 0
	}
	unfit, happened := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, "%-55s %8d %8d\n", kind, r.Injected[kind], r.Unfit[kind])
		unfit += r.Unfit[kind]
		happened += min(1, r.Injected[kind])
	}
	fmt.Fprintf(&b, "%-55s %8d %8d\n\n", fmt.Sprintf("%d of %d kinds", happened, len(kinds)), r.Faults(), unfit)
	fmt.Fprintf(&b, "%-12s %12s %12s\n", "topic", "sent", "in the log")
	for t, role := range roles {
		fmt.Fprintf(&b, "%-12s %12d %12d\n", role, r.Sent[t], r.Read[t])
	}
	fmt.Fprintf(&b, "%-12s %12s %12d\n", "rankings", "", r.Read[len(roles)])
	fmt.Fprintf(&b, "%d records in, %d transactions upstream aborted\n\naccount\n", r.Read[0]+r.Read[1]+r.Read[2], r.Aborted)
	for _, name := range slices.Sorted(maps.Keys(r.Account)) {
		fmt.Fprintf(&b, "  %-26s %12d\n", name, r.Account[name])
	}
	fmt.Fprintf(&b, "\nworkers started again %d times, at most %d MiB each; %d checks, and %d while faults were on; %v; seed %d\n", r.Restarts, r.Resident>>20,
		r.Checks, r.Beside, r.Took.Round(time.Second), r.Seed)
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "violation: %s\n", v)
	}
	fmt.Fprintf(&b, "violations: %d\n", len(r.Violations))
	_, err := io.WriteString(w, b.String())
	return err
}

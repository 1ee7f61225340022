package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/doctor"
)

func newDoctorCommand() *cobra.Command {
	var (
		file   string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "doctor --config FILE",
		Short: "Look at Kafka, the topics, Redis and the group as a worker would, and say what to do",
		Long: `Look at all that the configuration names, as a worker would meet it: the file itself, each broker (address, TLS, SASL, versions),
this user's rights, the topics, by which partitioners producers place keys, Redis (memory, persistence, rights, replicas),
clocks, and whether the group's workers are configured alike. Each thing is one line: ok, warning or fault, with what to do.

It changes nothing, and can be given while workers run. Rights are asked for, not tried: whether the transactional ids may be
used it finds out by asking to abort a transaction of a producer that there is not; whether Redis would carry out a worker's
commands by having them judged behind MULTI and never executed. Where Kafka has never had a group or a transaction, asking for
their coordinators makes it create its own internal topics.

Exit codes: 0 without faults (there may be warnings), 1 with some, 2 where the command line is wrong.`,
		Example: `  ranker-worker doctor --config worker.yaml
  ranker-worker doctor --json worker.yaml | jq '.findings[] | select(.status != "ok")'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd, file, asJSON) },
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document on stdout")
	return cmd
}

// doctorReport is the output of --json.
type doctorReport struct {
	Sound    bool             `json:"sound"` // no faults
	Findings []doctor.Finding `json:"findings"`
}

func runDoctor(cmd *cobra.Command, file string, asJSON bool) error {
	p := &slowProgress{w: cmd.ErrOrStderr(), live: isTerminal(cmd.ErrOrStderr()), began: time.Now()}
	found := doctor.Examine(cmd.Context(), file, os.LookupEnv, doctor.Options{Progress: p.say})
	p.end()
	faulty := doctor.Faulty(found)
	if asJSON {
		if err := printJSON(cmd.OutOrStdout(), doctorReport{!faulty, found}); err != nil {
			return err
		}
	} else {
		for _, f := range found {
			fmt.Fprintf(cmd.OutOrStdout(), "%-7s  %-13s  %s\n", f.Status, f.Area, f.Message)
		}
	}
	if faulty {
		return faultsFound
	}
	return nil
}

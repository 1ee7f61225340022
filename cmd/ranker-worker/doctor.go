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
		Short: "Check Kafka, the topics, Redis and the group as a worker would use them, with advice",
		Long: `Check everything that the configuration names, as a worker would use it: the file itself, each broker (address, TLS, SASL,
versions), this user's rights, the topics, the partitioners of their producers, Redis (memory, persistence, rights, replicas),
clocks, and whether the group's workers are configured alike. Each check is one line: ok, warning or fault, with advice.

It changes nothing, and can run beside workers. Rights are queried, not used: for the transactional ids it asks to abort a
transaction of a producer that does not exist; for Redis it queues a worker's commands behind MULTI and never executes them.
If Kafka never had a group or a transaction, asking for their coordinators makes it create its own internal topics.

Exit codes: 0 without faults (warnings are possible), 1 with faults, 2 if the command line is wrong.`,
		Example: `  ranker-worker doctor --config worker.yaml
  ranker-worker doctor --json worker.yaml | jq '.findings[] | select(.status != "ok")'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd, file, asJSON) },
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document on stdout")
	return cmd
}

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

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/doctor"
)

func newDoctorCommand() *cobra.Command {
	return verb(configFlag|jsonFlag, &cobra.Command{
		Use:   "doctor [--config FILE]",
		Short: "Check Kafka, the topics, the schema registry, Redis and the group as a worker would use them, with advice",
		Long: `Check everything that the configuration names, as a worker would use it: the file itself, each broker (address, TLS, SASL,
versions), this user's rights, the topics, the partitioners of their producers, the schema registry of Avro records, Redis (memory,
persistence, rights, replicas), clocks, and whether the group's workers are configured alike. Each check is one line: ok, warning or
fault, with advice.

It changes nothing, and can run beside workers. Rights are queried, not used: for the transactional ids it asks to abort a
transaction of a producer that does not exist; for Redis it queues a worker's commands behind MULTI and never executes them.
If Kafka never had a group or a transaction, asking for their coordinators makes it create its own internal topics.

Exit codes: 0 without faults (warnings are possible), 1 with faults, 2 if the command line is wrong.`,
		Example: `  ranker-worker doctor --config worker.yaml
  ranker-worker doctor --json worker.yaml | jq '.findings[] | select(.status != "ok")'`,
	}, runDoctor)
}

type doctorReport struct {
	Sound    bool             `json:"sound"` // no faults
	Findings []doctor.Finding `json:"findings"`
}

func runDoctor(c *call) error {
	if err := c.findFile(); err != nil {
		return err
	}
	found := doctor.Examine(c.ctx, c.file, os.LookupEnv, doctor.Options{Progress: c.say})
	faulty := doctor.Faulty(found)
	err := c.show(doctorReport{!faulty, found}, func(w io.Writer) {
		for _, f := range found {
			fmt.Fprintf(w, "%-7s  %-13s  %s\n", f.Status, f.Area, f.Message)
		}
	})
	if err == nil && faulty {
		err = faultsFound
	}
	return err
}

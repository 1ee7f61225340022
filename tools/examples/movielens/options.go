package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

var policies = []string{"moss", "greedy", "utility", "elimination", "optimistic", "thompson"}

// asInTheData is the value of -late for delays from the gaps of the data.
const asInTheData = "data"

type options struct {
	policies    []string
	impressions int
	partitions  int
	seed        uint64
	late        int // impressions; -1: delays of the data
	unanswered  int
	kafka       string
	redis       string
	ratings     string
	cache       string
	timeout     time.Duration
	keep        bool
	json        bool
	once        bool
	personal    bool
}

// errUsage: the command line is wrong; the reason has been printed.
var errUsage = errors.New("wrong usage")

func parseOptions(args []string, errOut io.Writer) (options, error) {
	var opt options
	f := flag.NewFlagSet("movielens", flag.ContinueOnError)
	f.SetOutput(errOut)
	names := f.String("policies", strings.Join(policies, ","), "policies that are played, one after the other, separated by commas")
	f.IntVar(&opt.impressions, "impressions", 200_000, "how many lists to rank, with each policy")
	f.IntVar(&opt.partitions, "partitions", 6, "of each topic")
	f.Uint64Var(&opt.seed, "seed", 1, "makes the same impressions, windows and delays again")
	late := f.String("late", asInTheData, "how late payoffs are: "+asInTheData+", for the gaps between ratings, or that many impressions")
	f.IntVar(&opt.unanswered, "unanswered", 256, "how many impressions may wait for their ranking at a time")
	f.StringVar(&opt.kafka, "kafka", os.Getenv("RANKER_TEST_KAFKA"), "host:port of a Kafka")
	f.StringVar(&opt.redis, "redis", os.Getenv("RANKER_TEST_REDIS"), "host:port of a Redis")
	f.StringVar(&opt.ratings, "ratings", "", "a file like ml-100k.inter; empty: MovieLens-100k itself, downloaded where needed")
	f.StringVar(&opt.cache, "cache", filepath.Join(".cache", "movielens"), "where the download is kept")
	f.DurationVar(&opt.timeout, "timeout", 30*time.Minute, "give up on a policy after this long")
	f.BoolVar(&opt.once, "once", false, "each user pays for each film once; there are ratings for some 60,000 impressions")
	f.BoolVar(&opt.personal, "personal", false, "impressions say of which genres films are and how old, and learners learn from it; implies -once")
	f.BoolVar(&opt.keep, "keep", false, "leave topics and keys in place, to look at")
	f.BoolVar(&opt.json, "json", false, "print one JSON document on stdout instead of the table")
	f.Usage = func() {
		fmt.Fprintln(errOut, "usage: movielens [flags]: MovieLens-100k through Kafka, Redis and the worker; see README.md")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return opt, err
		}
		return opt, errUsage
	}
	if f.NArg() > 0 {
		fmt.Fprintf(errOut, "movielens: there are no arguments besides flags, but %q\n", f.Arg(0))
		return opt, errUsage
	}
	if opt.personal {
		opt.once = true
	}
	if opt.once && !given(f, "impressions") {
		opt.impressions = onceImpressions
	}
	if opt.personal && !given(f, "policies") {
		*names = strings.Join(personalPolicies, ",")
	}
	faults := opt.validate(*names, *late)
	for _, fault := range faults {
		fmt.Fprintln(errOut, "movielens:", fault)
	}
	if len(faults) > 0 {
		return opt, errUsage
	}
	return opt, nil
}

func given(f *flag.FlagSet, name string) (is bool) {
	f.Visit(func(one *flag.Flag) { is = is || one.Name == name })
	return is
}

// onceImpressions is the default number of impressions if each user pays for each film once.
const onceImpressions = 50_000

var personalPolicies = []string{"moss", "greedy", "optimistic", "thompson"}

// Bounds of memory and patience.
const (
	maxImpressions = 10_000_000
	maxPartitions  = 256
	maxUnanswered  = 100_000
)

// validate returns all faults, and fills in derived options.
func (o *options) validate(names, late string) (faults []string) {
	between := func(flag string, value, least, most int) {
		if value < least || value > most {
			faults = append(faults, fmt.Sprintf("-%s must be from %d to %d, not %d", flag, least, most, value))
		}
	}
	between("impressions", o.impressions, 1, maxImpressions)
	between("partitions", o.partitions, 1, maxPartitions)
	between("unanswered", o.unanswered, 1, maxUnanswered)
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		switch {
		case o.personal && !slices.Contains(personalPolicies, name) && slices.Contains(policies, name):
			faults = append(faults, fmt.Sprintf("-policies: %s does not learn from features; %s do", name, strings.Join(personalPolicies, ", ")))
		case !slices.Contains(policies, name):
			faults = append(faults, fmt.Sprintf("-policies: %q is none of %s", name, strings.Join(policies, ", ")))
		case slices.Contains(o.policies, name):
			faults = append(faults, fmt.Sprintf("-policies: %s comes twice", name))
		default:
			o.policies = append(o.policies, name)
		}
	}
	if o.personal && o.ratings != "" {
		faults = append(faults, "-personal needs the films of MovieLens-100k itself, and not -ratings")
	}
	o.late = -1
	if late != asInTheData {
		k, err := strconv.Atoi(late)
		if err != nil || k < 1 || k > maxImpressions {
			faults = append(faults, fmt.Sprintf("-late must be %s or from 1 to %d impressions, not %q", asInTheData, maxImpressions, late))
		}
		o.late = k
	}
	for _, server := range [][2]string{{"kafka", o.kafka}, {"redis", o.redis}} {
		if _, _, err := net.SplitHostPort(server[1]); err != nil {
			faults = append(faults, fmt.Sprintf("-%s must be host:port, not %q; make movielens starts servers", server[0], server[1]))
		}
	}
	if o.timeout <= 0 {
		faults = append(faults, fmt.Sprintf("-timeout must be above 0, not %v", o.timeout))
	}
	return faults
}

// patience bounds unanswered impressions: fewer than an exact delay of payoffs in impressions.
func (o *options) patience() int {
	if o.late > 0 {
		return min(o.unanswered, o.late)
	}
	return o.unanswered
}

package stream

import (
	"errors"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// tracedShell is a shell whose requests make spans.
type tracedShell struct {
	shell
	traces *traces
}

var _ task.Shell = tracedShell{}

// Acquire abandons open batches: they are fetched again.
func (s tracedShell) Acquire(e task.Acquire) (state.Meta, error) {
	s.traces.abandon("the partition is acquired again")
	return s.shell.Acquire(e)
}

func (s tracedShell) Fetch(e task.Fetch) (task.Fetched, error) {
	f, err := s.shell.Fetch(e)
	if err == nil {
		s.traces.fetched(e.Topic, &f)
	}
	return f, err
}

func (s tracedShell) LookUp(e task.LookUp) (task.LookedUp, error) {
	span := s.traces.looksUp(&e)
	found, err := s.shell.LookUp(e)
	done(span, err)
	return found, err
}

// Produce has a span, and carries on the traces of its records. The task has not
// counted these headers: if they are too much for the topic, they are left out.
func (s tracedShell) Produce(e task.Produce) (task.Produced, error) {
	span, with, carried := s.traces.produces(e)
	got, err := s.shell.Produce(with)
	if carried && errors.Is(err, task.ErrTooLarge) {
		span.AddEvent("too large with the headers of traces, so it goes without them")
		got, err = s.shell.Produce(e)
	}
	if err == nil && got.BaseOffset >= 0 {
		span.SetAttributes(offset(got.BaseOffset))
	}
	done(span, err)
	return got, err
}

// Checkpoint has a span, and ends those of the batches that it holds completely.
func (s tracedShell) Checkpoint(e task.Checkpoint) error {
	span := s.traces.saves(e.Checkpoint)
	err := s.shell.Checkpoint(e)
	done(span, err)
	if err == nil {
		s.traces.saved(e.Checkpoint)
	}
	return err
}

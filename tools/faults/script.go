package faults

import (
	"context"
	"errors"
	"strings"
)

// Faults and measurements are scripts: the first step that fails ends all of it, by a panic. No other panic of this module stands for an error.
// A function that calls try, get, expect or fail belongs to scripts, and to the goroutine of one. Callbacks of until return their errors.

// ended is the panic that ends a script.
type ended struct{ err error }

// script runs a script, and returns the error that ended it, or its context's.
func script(ctx context.Context, do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case ended:
			err = p.err
		default:
			panic(p)
		}
	}()
	do()
	return ctx.Err()
}

func fail(err error) { panic(ended{err}) }

func try(err error) {
	if err != nil {
		fail(err)
	}
}

func get[T any](x T, err error) T { try(err); return x }

// expect is try for steps of the workers: their failure is a violation, if they had time.
func expect(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		err = violated("%v", err)
	}
	try(err)
}

// undo is deferred, so that damage is undone whatever ends the script. Its error joins the script's.
func undo(do func() error) {
	p := recover()
	err := do()
	switch p := p.(type) {
	case nil:
		try(err)
	case ended:
		fail(errors.Join(p.err, err))
	default:
		panic(p)
	}
}

// expectNone is the end of a check that found nothing.
func expectNone(found []string) {
	if len(found) > 0 {
		fail(violated("%s", strings.Join(found, "; ")))
	}
}

// Package lift recomputes an experiment's lift from its records: rankings say what was given which arm, selections and payoffs what became
// of it. What it comes to is what the worker's metrics say, as of the same time.
package lift

// Package lift recomputes an experiment's lift from its records. Units are the impressions or users by arm, from rankings; Report
// compares their outcomes by arm. It equals the worker's metrics as of the same time. It is not from the paper.
package lift

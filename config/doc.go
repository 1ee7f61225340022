// Package config reads the worker's one configuration file: defaults, then the file, then `${VAR}` and
// `${VAR:default}` from the environment, then every check there is. All faults are reported at once, each with its
// file, line and key; what is doubtful but allowed comes as warnings.
//
// The package has no global state: the environment is a parameter. A Config that was loaded is valid; it is not
// changed afterwards and is safe for concurrent use.
package config

// Package config reads the configuration file of the worker and of all commands. It applies defaults, the file, and
// `${VAR}` and `${VAR:default}` from the environment, in this order, and checks the result. It reports all faults at
// once, each with file, line and key. Valid but doubtful settings are warnings.
//
// The package has no global state: the environment is a parameter. A loaded Config is valid, is not changed, and is
// safe for concurrent use.
package config

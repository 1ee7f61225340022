// Package config reads the configuration file of the worker and of all commands. It applies defaults, the file, and `${VAR}` and
// `${VAR:default}` from the environment, in this order, and reports all faults at once, each with file, line and key. Valid but doubtful
// settings are warnings. The environment is a parameter. A loaded Config is valid, immutable, and safe for concurrent use.
package config

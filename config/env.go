package config

import (
	"fmt"
	"strings"
)

// Env looks up an environment variable, like os.LookupEnv.
type Env func(name string) (value string, ok bool)

// expansion is a scalar with its references replaced.
type expansion struct {
	text       string
	references int // their number
	shellStyle bool
}

// expand replaces ${VAR} and ${VAR:default}. "$${" stands for a literal "${"; any other '$' is itself. A default ends at the first '}'. A
// variable that is set but empty is set. Values are not expanded again.
func expand(s string, env Env) (expansion, error) {
	var out strings.Builder
	e := expansion{}
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			break
		}
		if i > 0 && s[i-1] == '$' {
			out.WriteString(s[:i-1])
			out.WriteString("${")
			s = s[i+2:]
			continue
		}
		out.WriteString(s[:i])
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return e, fmt.Errorf("${ without its }; a literal ${ is written $${")
		}
		name, fallback, hasFallback := strings.Cut(s[i+2:i+end], ":")
		if !isVariable(name) {
			return e, fmt.Errorf("%s is not a reference to a variable; a literal ${ is written $${", quote("${"+name+"}"))
		}
		e.references++
		value, ok := env(name)
		switch {
		case ok:
			out.WriteString(value)
		case hasFallback:
			// A shell writes ${VAR:-default}; here that is the default "-default", probably a mistake.
			e.shellStyle = e.shellStyle || len(fallback) > 1 && fallback[0] == '-' && !isDigit(fallback[1]) && fallback[1] != '.'
			out.WriteString(fallback)
		default:
			return e, fmt.Errorf("the environment variable %s is not set, and there is no default (${%s:default})", name, name)
		}
		s = s[i+end+1:]
	}
	out.WriteString(s)
	e.text = out.String()
	return e, nil
}

func escape(s string) string { return strings.ReplaceAll(s, "${", "$${") }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isVariable(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || !isDigit(c)) {
			return false
		}
	}
	return s != ""
}

package config

import (
	"fmt"
	"regexp"
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

var (
	// references are "$${", which stands for a literal "${", and variables: name, default behind its colon, end.
	references = regexp.MustCompile(`\$\$\{|\$\{([^:}]*)(?::([^}]*))?(\}?)`)
	variable   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// A shell writes ${VAR:-default}; here that is the default "-default", probably a mistake.
	ofShell = regexp.MustCompile(`^-[^0-9.]`)
)

// expand replaces ${VAR} and ${VAR:default}. "$${" stands for a literal "${"; any other '$' is itself. A default ends at the first '}'. A
// variable that is set but empty is set. Values are not expanded again.
func expand(s string, env Env) (e expansion, err error) {
	e.text = references.ReplaceAllStringFunc(s, func(found string) string {
		m := references.FindStringSubmatch(found)
		switch name, fallback := m[1], m[2]; {
		case found == "$${":
			return "${"
		case err != nil:
		case m[3] == "":
			err = fmt.Errorf("${ without its }; a literal ${ is written $${")
		case !variable.MatchString(name):
			err = fmt.Errorf("%s is not a reference to a variable; a literal ${ is written $${", quote("${"+name+"}"))
		default:
			e.references++
			value, ok := env(name)
			if ok {
				return value
			}
			if len(found) == len("${}")+len(name) {
				err = fmt.Errorf("the environment variable %s is not set, and there is no default (${%s:default})", name, name)
			}
			e.shellStyle = e.shellStyle || ofShell.MatchString(fallback)
			return fallback
		}
		return ""
	})
	return e, err
}

func escape(s string) string { return strings.ReplaceAll(s, "${", "$${") }

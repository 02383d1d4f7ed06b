package program

import "strings"

// option is one option of a program: its names, and whether a value follows. A name that ends in a hyphen is the
// beginning of many, such as --knob-.
type option struct {
	names []string
	value bool
}

// options reads a table: one option a word, its names between |, = behind the last one if a value follows.
func options(table ...string) []option {
	var list []option
	for _, part := range table {
		for word := range strings.FieldsSeq(part) {
			names, value := strings.CutSuffix(word, "=")
			list = append(list, option{strings.Split(names, "|"), value})
		}
	}
	return list
}

// tlsOptions are those of all programs. Source: flow/include/flow/TLSConfig.actor.h at 7.3.69, TLS_OPTION_FLAGS.
const tlsOptions = "--tls-plugin= --tls-certificate-file= --tls-key-file= --tls-verify-peers= --tls-password= --tls-ca-file="

// given is an option as it was given.
type given struct {
	id    string // the first name in the table
	text  string // as it was written, without its value
	value string
}

// mistake is what is wrong with an argument.
type mistake int

const (
	noMistake mistake = iota
	unknownOption
	ambiguousOption
	argumentGiven   // for an option that takes none
	argumentMissing //
	argumentOption  // the value begins with a hyphen
)

// arguments reads arguments one by one, as contrib/SimpleOpt/include/SimpleOpt/SimpleOpt.h at 7.3.69 does: hyphens
// and underscores are the same, a value follows = or as the next argument, and the first that is no option is the
// first of the files, unless the table is not exact.
type arguments struct {
	table []option
	exact bool
	rest  []string
}

// next returns the next option. more: there was one, or a mistake.
func (a *arguments) next() (g given, wrong mistake, more bool) {
	if len(a.rest) == 0 {
		return given{}, noMistake, false
	}
	word := a.rest[0]
	text, value, has := strings.Cut(word, "=")
	g.text = text
	if !strings.HasPrefix(word, "-") {
		g.text, has = word, false
	}
	found, name, wrong := a.find(g.text)
	a.rest = a.rest[1:]
	if wrong != noMistake {
		return g, wrong, true
	}
	g.id = found.names[0]
	g.value = value
	switch {
	case !found.value && has:
		g.text = name
		return g, argumentGiven, true
	case !found.value || has:
		return g, noMistake, true
	case len(a.rest) == 0:
		g.text = name
		return g, argumentMissing, true
	case strings.HasPrefix(a.rest[0], "-"):
		g.text = name
		return g, argumentOption, true
	}
	g.value = a.rest[0]
	a.rest = a.rest[1:]
	return g, noMistake, true
}

// find looks an option up; without exact also by the beginning of its name.
func (a *arguments) find(text string) (found option, name string, wrong mistake) {
	if !strings.HasPrefix(text, "-") {
		return option{}, "", unknownOption
	}
	test := hyphens(text)
	longest, second := 0, 0
	for _, o := range a.table {
		for _, name := range o.names {
			own := hyphens(name)
			switch {
			case test == own, strings.HasSuffix(own, "-") && strings.HasPrefix(test, own) && len(own) > 2:
				return o, name, noMistake
			case !a.exact && strings.HasPrefix(own, test) && strings.TrimLeft(test, "-") != "" && leading(test) == leading(own):
				if len(test) >= longest {
					longest, second = len(test), longest
					found = o
				}
			}
		}
	}
	switch {
	case longest == 0:
		return option{}, "", unknownOption
	case longest == second:
		return option{}, "", ambiguousOption
	}
	return found, found.names[0], noMistake
}

func hyphens(text string) string { return strings.ReplaceAll(text, "_", "-") }

// leading counts the hyphens before a name.
func leading(text string) int { return len(text) - len(strings.TrimLeft(text, "-")) }

// after returns what follows the name of an option of many, with underscores: foo_bar of --knob-foo-bar.
func (g given) after() string {
	rest := strings.TrimPrefix(hyphens(g.text), hyphens(g.id))
	return strings.ReplaceAll(rest, "-", "_")
}

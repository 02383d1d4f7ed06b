package sim

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// parseError is the word that stands before a command that could not be read.
const parseError = "parse_error"

// parseCommands splits a line into commands and their words. From 7.3 on \u00NN is an escape too. Source:
// foundationdb 7.1.67 and 7.3.69, fdbcli/fdbcli.actor.cpp, parseLine.
func parseCommands(line string, v fdb.Version) [][]string {
	commands := [][]string{nil}
	last := func() *[]string { return &commands[len(commands)-1] }
	var word strings.Builder
	begun, quoted, wrong := false, false, false
	end := func() {
		if begun {
			*last() = append(*last(), word.String())
		}
		word.Reset()
		begun = false
	}
	for i := 0; i < len(line) && !wrong; i++ {
		switch b := line[i]; {
		case b == ';' && !quoted:
			end()
			commands = append(commands, nil)
		case b == '"':
			quoted, begun = !quoted, true
		case strings.IndexByte(" \n\t\r", b) >= 0 && !quoted:
			end()
		case b == '\\':
			decoded, size := unescape(line[i:])
			if strings.HasPrefix(line[i:], `\u00`) && v.Short() != "7.1" {
				decoded, size = unescape(`\x` + line[i+4:])
				size += min(size, 2)
			}
			if size == 0 {
				wrong = true
				break
			}
			word.WriteByte(decoded)
			begun = true
			i += size - 1
		default:
			word.WriteByte(b)
			begun = true
		}
	}
	end()
	if wrong || quoted {
		*last() = append([]string{parseError}, *last()...)
	}
	return commands
}

// unescape reads an escape sequence; size 0 means that it is none.
func unescape(text string) (decoded byte, size int) {
	if len(text) < 2 {
		return 0, 0
	}
	switch text[1] {
	case ' ', '"', '\\', ';':
		return text[1], 2
	case 'x':
		if len(text) >= 4 {
			if _, err := fmt.Sscanf(text[2:4], "%02x", &decoded); err == nil {
				return decoded, 4
			}
		}
	}
	return 0, 0
}

// formatted is a word as fdbcli repeats it.
func formatted(word string) string {
	var b strings.Builder
	for i := range len(word) {
		switch c := word[i]; {
		case c > ' ' && c < 0x7f && strings.IndexByte(`"\;`, c) < 0:
			b.WriteByte(c)
		case c == '"' || c == '\\' || c == ';' || c == ' ':
			b.WriteString("\\" + string(rune(c)))
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// printable is a key or a value as fdbcli prints it. Source: foundationdb 7.3.69, flow/flow.cpp,
// printable.
func printable(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\\':
			b.WriteString(`\\`)
		case c >= ' ' && c < 0x7f:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// VersionText is what --version prints; title is FoundationDB CLI for fdbcli, FoundationDB for the others.
func VersionText(title string, v fdb.Version) string {
	return fmt.Sprintf("%s %s (v%s)\nsource version 9430e1127b4991cbc5ab2b17f41cfffa5de07e9d\nprotocol %s\n", title, v.Short(), v, protocolText(v, 15))
}

// Package cli splits and joins the words of fdbcli, and reads and writes keys and values as fdbcli prints them.
//
//	cli.Join([]string{"set", "a b", ""})   // set a\x20b ""
package cli

import (
	"fmt"
	"strings"
)

// Split splits the text of --exec, or a line of an interactive fdbcli, into commands and their
// words, as fdbcli does (parseLine in fdbcli/fdbcli.actor.cpp at 7.1.67, 7.3.69 and 7.4.6). It refuses
// what fdbcli calls malformed, an open quote, and the escape \u, which 7.1 does not know.
func Split(text string) ([][]string, error) {
	var commands [][]string
	var words []string
	var word []byte
	begun, quoted := false, false
	end := func() {
		if begun {
			words = append(words, string(word))
		}
		word, begun = nil, false
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted, begun = !quoted, true
		case c == '\\':
			b, size := unescape(text[i:])
			if size == 0 {
				return nil, fmt.Errorf("a malformed escape at byte %d", i)
			}
			word, begun = append(word, b), true
			i += size - 1
		case quoted:
			word, begun = append(word, c), true
		case c == ';':
			end()
			commands, words = append(commands, words), nil
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			end()
		default:
			word, begun = append(word, c), true
		}
	}
	if quoted {
		return nil, fmt.Errorf("an open quote")
	}
	end()
	return append(commands, words), nil
}

// unescape reads the escape at the beginning of text: its byte and how long it is; 0 means malformed.
func unescape(text string) (b byte, size int) {
	if len(text) < 2 {
		return 0, 0
	}
	switch text[1] {
	case '"', '\\', ' ', ';':
		return text[1], 2
	case 'x':
		if len(text) < 4 {
			return 0, 0
		}
		high, low := hexDigit(text[2]), hexDigit(text[3])
		if high < 0 || low < 0 {
			return 0, 0
		}
		return byte(high<<4 | low), 4
	default:
		return 0, 0
	}
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// Join is the text that Split splits into these commands.
func Join(commands ...[]string) string {
	texts := make([]string, len(commands))
	for i, words := range commands {
		escaped := make([]string, len(words))
		for k, word := range words {
			escaped[k] = escapeWord(word)
		}
		texts[i] = strings.Join(escaped, " ")
	}
	return strings.Join(texts, "; ")
}

// escapeWord writes a word so that fdbcli reads it back byte by byte.
func escapeWord(word string) string {
	if word == "" {
		return `""`
	}
	var b strings.Builder
	for i := range len(word) {
		switch c := word[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c > ' ' && c < 0x7f && c != ';':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// Unprintable reads a key or a value as fdbcli prints it: backslashes doubled, what is no printable ASCII
// as \xNN (TraceableStringImpl in flow/Trace.h at 7.1.67, flow/include/flow/Traceable.h at 7.3.69).
func Unprintable(text string) ([]byte, bool) {
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			e, size := unescape(text[i:])
			if size == 0 || size == 2 && e != '\\' {
				return nil, false
			}
			b = append(b, e)
			i += size - 1
		case c < ' ' || c > '~':
			return nil, false
		default:
			b = append(b, c)
		}
	}
	return b, true
}

// Printable is how fdbcli prints a key or a value.
func Printable(b string) string {
	var text strings.Builder
	for i := range len(b) {
		switch c := b[i]; {
		case c == '\\':
			text.WriteString(`\\`)
		case c >= ' ' && c <= '~':
			text.WriteByte(c)
		default:
			fmt.Fprintf(&text, `\x%02x`, c)
		}
	}
	return text.String()
}

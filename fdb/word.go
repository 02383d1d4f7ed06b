package fdb

import (
	"regexp"

	"github.com/pawl-dev/pawl/fault"
)

// WordInvalid says that a text cannot become part of a command: fdbcli splits a command text at
// spaces and semicolons, and quotes and backslashes change what follows.
var WordInvalid = fault.Declare(fault.Kind{
	Code: "FDB_WORD_INVALID", Class: fault.Invalid,
	Title:  "a text cannot become part of a command",
	Remedy: "Correct the field that the message names: no white space, semicolons, quotes or backslashes, and only the characters of its form.",
})

// Word is the strict form of what becomes part of the text of a command.
type Word string

const (
	WordAddress    Word = "address"     // as ParseAddress reads it
	WordLocality   Word = "locality"    // locality_name:value, or name:value
	WordZone       Word = "zone"        // the value of a fault domain
	WordTag        Word = "tag"         // of a backup or restore
	WordKey        Word = "key"         // of a key range: letters, digits, / - _ . and \xNN for any other byte
	WordDatacenter Word = "data center" // the id of one
	WordWiggle     Word = "wiggle"      // a locality to wiggle, or 0
)

// wordForms has one expression a form. The key's is the one of fdb-kubernetes-operator 2.33.0,
// api/v1beta2/foundationdbrestore_types.go, with backslashes only where they escape a byte; the
// wiggle's is the one of foundationdb_database_configuration.go there.
var wordForms = map[Word]*regexp.Regexp{
	WordLocality:   regexp.MustCompile(`^[A-Za-z0-9_]+:[A-Za-z0-9_./-]+$`),
	WordZone:       regexp.MustCompile(`^[A-Za-z0-9_.:/-]+$`),
	WordTag:        regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.:/-]{0,63}$`),
	WordKey:        regexp.MustCompile(`^(?:[A-Za-z0-9/_.-]|\\x[0-9A-Fa-f]{2})+$`),
	WordDatacenter: regexp.MustCompile(`^[A-Za-z0-9_./-]+$`),
	WordWiggle:     regexp.MustCompile(`^(?:[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+|0)$`),
}

// CheckWord refuses a text that does not have the form. It fails with WordInvalid.
func CheckWord(form Word, text string) error {
	if form == WordAddress {
		if _, err := ParseAddress(text); err != nil {
			return WordInvalid.Errorf("%s", fault.Message(err))
		}
		return nil
	}
	if expression := wordForms[form]; expression == nil || !expression.MatchString(text) {
		return WordInvalid.Errorf("%q is no %s", text, form)
	}
	return nil
}

// Package help has what pawl says about itself: topics, the flags of all commands, the form of a command's help, and
// what is wrong with the arguments of a command.
package help

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed topics/*.md
var files embed.FS

// Topic is a text about something that many commands share.
type Topic struct {
	Name  string // such as exit-codes
	Title string
	Text  string // Markdown without the title: headings, paragraphs, indented lines
}

// Topics returns all topics, in the order of their names.
func Topics() []Topic {
	entries, err := fs.ReadDir(files, "topics")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	var all []Topic
	for _, e := range entries {
		data, err := files.ReadFile("topics/" + e.Name())
		if err != nil {
			panic(err)
		}
		title, text, _ := strings.Cut(string(data), "\n")
		all = append(all, Topic{Name: strings.TrimSuffix(e.Name(), ".md"), Title: strings.TrimPrefix(title, "# "), Text: strings.TrimLeft(text, "\n")})
	}
	return all
}

// find returns the topic of a name.
func find(name string) (Topic, bool) {
	for _, t := range Topics() {
		if strings.EqualFold(t.Name, name) {
			return t, true
		}
	}
	return Topic{}, false
}

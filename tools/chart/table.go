package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	tableBegins = "<!-- values: written by make generate from deploy/chart/values.yaml -->\n"
	tableEnds   = "<!-- end of values -->\n"
)

// document writes the table of values into a page, between its markers.
func document(values, page string) error {
	text, err := os.ReadFile(values)
	if err != nil {
		return err
	}
	rows, err := table(text)
	if err != nil {
		return fmt.Errorf("%s: %w", values, err)
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(old), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return fmt.Errorf("%s: the marks of the table of values are missing", page)
	}
	next := before + tableBegins + "\n| value | default | meaning |\n|---|---|---|\n" + strings.Join(rows, "") + "\n" + tableEnds + after
	if next == string(old) {
		return nil
	}
	return os.WriteFile(page, []byte(next), 0o644)
}

// table returns a row for each value with a comment. A value without a comment is an error
// unless the values below it have comments.
func table(text []byte) ([]string, error) {
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	if len(file.Content) != 1 || file.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("this is no mapping")
	}
	return rows("", file.Content[0])
}

func rows(path string, node *yaml.Node) (all []string, err error) {
	for n := 0; n+1 < len(node.Content); n += 2 {
		key, value := node.Content[n], node.Content[n+1]
		name := path + key.Value
		comment := describe(key.HeadComment)
		if comment == "" {
			if value.Kind != yaml.MappingNode || len(value.Content) == 0 {
				return nil, fmt.Errorf("line %d: %s has no comment", key.Line, name)
			}
			below, err := rows(name+".", value)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
			continue
		}
		plain, err := flow(value)
		if err != nil {
			return nil, err
		}
		all = append(all, "| `"+name+"` | `"+plain+"` | "+comment+" |\n")
	}
	return all, nil
}

// describe returns the last paragraph of a comment: the paragraphs before it belong to the
// file.
func describe(comment string) string {
	paragraphs := strings.Split(comment, "\n\n")
	var words []string
	for line := range strings.SplitSeq(paragraphs[len(paragraphs)-1], "\n") {
		words = append(words, strings.TrimSpace(strings.TrimPrefix(line, "#")))
	}
	return strings.ReplaceAll(strings.Join(words, " "), "|", `\|`)
}

// flow returns a value as one line of YAML.
func flow(node *yaml.Node) (string, error) {
	one := strip(*node)
	text, err := yaml.Marshal(&one)
	return strings.TrimSpace(string(text)), err
}

func strip(node yaml.Node) yaml.Node {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	node.Style |= yaml.FlowStyle
	content := make([]*yaml.Node, len(node.Content))
	for n, c := range node.Content {
		below := strip(*c)
		content[n] = &below
	}
	node.Content = content
	return node
}

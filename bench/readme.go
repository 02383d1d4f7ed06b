package main

import (
	"fmt"
	"os"
	"strings"
)

// update replaces the text between the markers of a section.
func update(page, section, text string) (string, error) {
	begin, end := "<!-- begin: "+section+" -->\n", "<!-- end: "+section+" -->"
	before, rest, ok := strings.Cut(page, begin)
	if !ok {
		return "", fmt.Errorf("the line %q is missing: put it where the part belongs", strings.TrimSpace(begin))
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("the line %q is missing behind its beginning", end)
	}
	return before + begin + text + end + after, nil
}

// updateFile updates the sections of a file.
func updateFile(path string, all []section) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(data)
	for _, s := range all {
		if page, err = update(page, s.name, "\n"+s.text+"\n"); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

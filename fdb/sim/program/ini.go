package program

import (
	"cmp"
	"os"
	"slices"
	"strings"
)

// ini is a configuration file: sections with keys, both without regard to case, as fdbclient/SimpleIni.h at 7.3.69
// reads them. A key that is there twice has its last value.
type ini struct{ sections map[string]map[string]string }

func readIni(path string) (ini, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return ini{}, err
	}
	file := ini{map[string]map[string]string{}}
	section := ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			name, _, closed := strings.Cut(line[1:], "]")
			if closed {
				section = strings.ToLower(strings.TrimSpace(name))
				if file.sections[section] == nil {
					file.sections[section] = map[string]string{}
				}
			}
		default:
			key, value, is := strings.Cut(line, "=")
			if key = strings.TrimSpace(key); is && key != "" && section != "" {
				file.sections[section][strings.ToLower(key)] = strings.TrimSpace(value)
			}
		}
	}
	return file, nil
}

// get returns a value: of the first section that has it, with hyphens or with underscores.
func (i ini) get(key string, sections ...string) (string, bool) {
	for _, section := range sections {
		for _, name := range []string{key, strings.ReplaceAll(key, "-", "_")} {
			if value, there := i.sections[strings.ToLower(section)][strings.ToLower(name)]; there {
				return value, true
			}
		}
	}
	return "", false
}

// keys returns the keys of sections in order, each once.
func (i ini) keys(sections ...string) []string {
	var keys []string
	for _, section := range sections {
		for key := range i.sections[strings.ToLower(section)] {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, cmp.Compare[string])
	return slices.Compact(keys)
}

// servers returns the sections that stand for one process each: those with a dot.
func (i ini) servers() []string {
	var found []string
	for section := range i.sections {
		if strings.Contains(section, ".") {
			found = append(found, section)
		}
	}
	slices.Sort(found)
	return found
}

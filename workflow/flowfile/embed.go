package flowfile

import "io/fs"

// LoadFS is Parse for the files that match a pattern of [fs.Glob], such as those that an operator embeds.
func LoadFS(files fs.FS, pattern string, o Options) (*Set, error) {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, err
	}
	all := make([]File, len(names))
	for i, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		all[i] = File{Name: name, Data: data}
	}
	return Parse(all, o)
}

package sqlite

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// The writer lengthens the log before it is needed: a sync of overwritten bytes costs
// about half of a sync that lengthens the file, because the file system has no metadata
// to write (docs/adr/0054).
const (
	logAhead  = 256 << 10 // bytes ready behind the last page of the log
	logGrowth = 4 << 20   // bytes added at once: four times until SQLite restarts the log
	logHead   = 32
	logPage   = 4096 + 24
)

var zeros [256 << 10]byte // appended to the log

// logFile is SQLite's write-ahead log as a file, and its index.
type logFile struct {
	file   *os.File // nil: the log is not lengthened
	index  *os.File // nil: there is no index to read
	size   int64
	growBy int64
	frames uint32 // pages in the log after the newest commit of this process
}

// open opens the files of the log, which SQLite has created by now. Without them, some
// statistics are missing and syncs take longer.
func (l *logFile) open(path string, lengthen bool) {
	l.growBy = logGrowth
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // SQLite keeps the log beside the real file
	}
	l.index = indexes.open(path + "-shm")
	if lengthen {
		l.file, _ = os.OpenFile(path+"-wal", os.O_WRONLY, 0)
	}
}

func (l *logFile) close() {
	if l.file != nil {
		l.file.Close()
	}
	if l.index != nil {
		indexes.close(l.index)
	}
}

// indexes holds the log indexes of the stores of this process. SQLite locks the index,
// and closing a file releases all locks of the process on it. So the stores of one file
// share the descriptor, and the last of them closes it.
var indexes shared

type shared struct {
	mu    sync.Mutex
	files []*sharedFile
}

type sharedFile struct {
	file  *os.File
	info  os.FileInfo
	users int
}

// open opens a file for reading; nil if it cannot be opened.
func (s *shared) open(path string) *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	for _, f := range s.files {
		if os.SameFile(f.info, info) {
			f.users++
			return f.file
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	s.files = append(s.files, &sharedFile{file, info, 1})
	return file
}

func (s *shared) close(file *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = slices.DeleteFunc(s.files, func(f *sharedFile) bool {
		if f.file != file {
			return false
		}
		if f.users--; f.users == 0 {
			f.file.Close()
		}
		return f.users == 0
	})
}

// pages returns how many pages of the log are valid.
func (l *logFile) pages() (n uint32, ok bool) {
	var head [4]byte
	if l.index == nil {
		return 0, false
	}
	if _, err := l.index.ReadAt(head[:], 16); err != nil {
		return 0, false
	}
	return binary.NativeEndian.Uint32(head[:]), true
}

// lengthen appends zeros to the log. SQLite does not take them for pages, because their
// salt and checksum are wrong. The caller holds the log's write lock and has written
// nothing yet, so no other process writes there. If the disk is full, lengthen does
// nothing; the writes that need the space report it.
func (l *logFile) lengthen() {
	if l.file == nil {
		return
	}
	n, ok := l.pages()
	need := logHead + int64(n)*logPage + min(logAhead, l.growBy)
	if !ok || need <= l.size {
		return
	}
	info, err := l.file.Stat()
	if err != nil {
		return
	}
	if l.size = info.Size(); need <= l.size {
		return
	}
	for at, end := l.size, l.size+l.growBy; at < end; {
		n, err := l.file.WriteAt(zeros[:min(int64(len(zeros)), end-at)], at)
		if err != nil {
			_ = l.file.Truncate(l.size) // leave the remaining space to other writes
			l.file.Close()
			l.file = nil
			return
		}
		at += int64(n)
	}
	l.size += l.growBy
}

// countNewPages counts the pages of the newest commit. again: SQLite has moved the log
// into the file and restarted it.
func (l *logFile) countNewPages() (pages int64, again bool) {
	n, ok := l.pages()
	if !ok {
		return 0, false
	}
	added := n - l.frames
	if again = n < l.frames; again {
		added = n
	}
	l.frames = n
	return int64(added), again
}

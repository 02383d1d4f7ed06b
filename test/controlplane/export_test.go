package controlplane

// Reap ends what killed owners left behind, as each start does.
func Reap() error {
	s, err := takeSlot()
	if err != nil {
		return err
	}
	return s.free(false)
}

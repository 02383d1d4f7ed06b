package controlplane

// Reap removes the processes and folders of killed owners, as each start does.
func Reap() error {
	s, err := takeSlot()
	if err != nil {
		return err
	}
	return s.free(false)
}

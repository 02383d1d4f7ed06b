package v1alpha1

// PoolerSpec is a number of PgBouncers in front of the writer of a SharedStorageCluster. Clients reach
// them at the Service <cluster>-pooler-rw, with the roles and passwords of the cluster.
type PoolerSpec struct {
	// Instances is the number of poolers.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Instances int32 `json:"instances,omitempty"`
	// Mode is transaction or session. transaction: a client has a connection to the writer for one
	// transaction, so it cannot use what a session keeps, such as SET, LISTEN and prepared statements
	// with names. session: for its whole session, which a switch ends.
	// +kubebuilder:default=transaction
	// +kubebuilder:validation:Enum=transaction;session
	Mode string `json:"mode,omitempty"`
	// MaxClientConnections is how many clients one pooler takes.
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxClientConnections int32 `json:"maxClientConnections,omitempty"`
	// DefaultPoolSize is how many connections to the writer one pooler opens for each pair of database
	// and user.
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	DefaultPoolSize int32 `json:"defaultPoolSize,omitempty"`
	// Parameters are further parameters of pgbouncer.ini. Only those that concern clients, pools and
	// timeouts are allowed.
	// +kubebuilder:validation:MaxProperties=50
	Parameters map[string]string `json:"parameters,omitempty"`
	// Image has pgbouncer in its PATH. Empty: that of the operator (--pooler-image). Processes have none.
	// +kubebuilder:validation:MaxLength=500
	Image string `json:"image,omitempty"`
}

// PoolerStatus is the observed state of one pooler.
type PoolerStatus struct {
	Name    string `json:"name"` // of its pod or process
	Address string `json:"address,omitempty"`
	Port    int32  `json:"port,omitempty"`
	Health  string `json:"health,omitempty"` // Healthy, Paused (clients wait), Starting
	Writer  string `json:"writer,omitempty"` // host:port to which it sends clients
	Message string `json:"message,omitempty"`
}

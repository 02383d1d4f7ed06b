package v1alpha1

// PublicationSpec is a publication: changes of tables of a database, for the subscriptions of other
// servers. What is not declared is left alone: it is dropped only with ensure: absent.
//
// +kubebuilder:validation:XValidation:rule="(has(self.ensure) && self.ensure == 'absent') || [has(self.tables), has(self.schemas), has(self.allTables) && self.allTables].filter(x, x).size() == 1",message="name one of tables, schemas and allTables"
type PublicationSpec struct {
	// +kubebuilder:validation:Pattern=`^[a-z]([a-z0-9_]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Database is one of spec.databases, or one that is there.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database"`
	// Ensure is present or absent; absent drops the publication.
	// +kubebuilder:default=present
	// +kubebuilder:validation:Enum=present;absent
	Ensure string `json:"ensure,omitempty"`
	// Tables, as schema.table; without a schema they are in public.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:Pattern=`^[^."]+(\.[^."]+)?$`
	// +kubebuilder:validation:items:MaxLength=127
	// +listType=set
	Tables []string `json:"tables,omitempty"`
	// Schemas with all their tables, also those that are made later.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Schemas []string `json:"schemas,omitempty"`
	// AllTables of the database, also those that are made later.
	AllTables bool `json:"allTables,omitempty"`
	// Operations that are published: insert, update, delete, truncate. Without it: all.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=insert;update;delete;truncate
	// +listType=set
	Operations []string `json:"operations,omitempty"`
}

// SubscriptionSpec is a subscription of a database to publications of another server. Its tables must be
// in the database, with the names that they have there. It is dropped only with ensure: absent, and its
// slot on the other server with it.
//
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('pg_') && !self.name.startsWith('pawl_')",message="name: names that begin with pg_ or pawl_ are those of other slots"
// +kubebuilder:validation:XValidation:rule="(has(self.ensure) && self.ensure == 'absent') || (has(self.from) && has(self.publications))",message="name publications, and the server they come from"
type SubscriptionSpec struct {
	// Name of the subscription, and of its slot on the other server.
	// +kubebuilder:validation:Pattern=`^[a-z]([a-z0-9_]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Database is one of spec.databases, or one that is there.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database"`
	// Ensure is present or absent; absent drops the subscription.
	// +kubebuilder:default=present
	// +kubebuilder:validation:Enum=present;absent
	Ensure string `json:"ensure,omitempty"`
	// Publications of the other server.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Publications []string `json:"publications,omitempty"`
	// From is the server that publishes.
	From *PublisherSpec `json:"from,omitempty"`
	// CopyData copies the rows that a table has when it is subscribed. Default: true.
	// +kubebuilder:default=true
	CopyData *bool `json:"copyData,omitempty"`
	// Enabled says whether changes are received. While it is false, the other server keeps them.
	// Default: true.
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
}

// PublisherSpec is a server that publishes, and a user there that has REPLICATION and may read the tables.
type PublisherSpec struct {
	// Host is a name or an address, such as blue-rw.other-namespace.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:][A-Za-z0-9.:_-]*$`
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host"`
	// +kubebuilder:default=5432
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Database there. Without it: the one of the subscription.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	User string `json:"user"`
	// Password of the user. PostgreSQL keeps it in clear text where only superusers, and backups, see it.
	Password *SecretSource `json:"password,omitempty"`
	// SSLMode is disable, prefer or require.
	// +kubebuilder:default=prefer
	// +kubebuilder:validation:Enum=disable;prefer;require
	SSLMode string `json:"sslMode,omitempty"`
}

// SubscriptionStatus is a declared subscription as it was last seen: at least once a minute.
type SubscriptionStatus struct {
	Name     string `json:"name"`
	Database string `json:"database"`
	// State is Streaming, Copying (the rows of some tables), Disabled, Down (no process receives) or
	// SlotLost (the other server does not have its slot any more, so it goes on never).
	State string `json:"state"`
	// LagBytes is how much log of the other server is not confirmed yet; absent: it did not say.
	LagBytes *int64 `json:"lagBytes,omitempty"`
	// Errors is how often something could not be applied or copied, since the writer has started.
	Errors int64 `json:"errors,omitempty"`
}

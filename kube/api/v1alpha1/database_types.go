package v1alpha1

// UserSpec is a user (a role of PostgreSQL) as it shall be. It is never a superuser. What is not
// declared is left alone: a user is dropped only with ensure: absent.
//
// +kubebuilder:validation:XValidation:rule="!has(self.superuser) || !self.superuser",message="superuser: no user of an application is a superuser; grant what it needs with inRoles, such as pg_monitor"
// +kubebuilder:validation:XValidation:rule="!has(self.createrole) || !self.createrole",message="createrole: up to PostgreSQL 15 such a user can make itself as good as a superuser; declare the users here"
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('pg_') && self.name != 'postgres' && self.name != 'public'",message="name: postgres, public and names that begin with pg_ are PostgreSQL's own"
// +kubebuilder:validation:XValidation:rule="self.name != 'auth' && !self.name.endsWith('_auth')",message="name: auth and names that end with _auth would have the Secrets of clusters"
// +kubebuilder:validation:XValidation:rule="!has(self.inRoles) || self.inRoles.all(r, r != 'postgres' && r != 'pg_execute_server_program' && r != 'pg_read_server_files' && r != 'pg_write_server_files')",message="inRoles: postgres, pg_execute_server_program, pg_read_server_files and pg_write_server_files make a user as good as a superuser"
type UserSpec struct {
	// +kubebuilder:validation:Pattern=`^[a-z]([a-z0-9_]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Ensure is present or absent; absent drops the user.
	// +kubebuilder:default=present
	// +kubebuilder:validation:Enum=present;absent
	Ensure string `json:"ensure,omitempty"`
	// Login says whether the user may log in. Default: true.
	// +kubebuilder:default=true
	Login *bool `json:"login,omitempty"`
	// CreateDB lets the user create databases.
	CreateDB bool `json:"createdb,omitempty"`
	// Replication lets the user stream the log of the whole cluster.
	Replication bool `json:"replication,omitempty"`
	// CreateRole is refused.
	CreateRole bool `json:"createrole,omitempty"`
	// Superuser is refused.
	Superuser bool `json:"superuser,omitempty"`
	// InRoles are all roles that the user is a member of; without this field its memberships are left
	// alone.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	InRoles []string `json:"inRoles,omitempty"`
	// ConnectionLimit is how many connections the user may have at once; -1: any number.
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=100000
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// Password is where the password is read. Without it the operator makes one for a user that may log
	// in, and keeps it in the Secret <cluster>-<user>, with - for _.
	Password *SecretSource `json:"password,omitempty"`
	// ValidUntil is when the password ends, such as 2027-01-01T00:00:00Z. Without it: never.
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:MaxLength=40
	ValidUntil string `json:"validUntil,omitempty"`
}

// DatabaseSpec is a database as it shall be. It is dropped, with all that is in it, only with ensure:
// absent.
//
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('pg_') && self.name != 'postgres' && self.name != 'template0' && self.name != 'template1'",message="name: postgres, template0, template1 and names that begin with pg_ are PostgreSQL's own"
// +kubebuilder:validation:XValidation:rule="!has(self.owner) || (!self.owner.startsWith('pg_') && self.owner != 'postgres' && self.owner != 'public')",message="owner: name a user of an application"
// +kubebuilder:validation:XValidation:rule="has(self.owner) || (has(self.ensure) && self.ensure == 'absent')",message="owner: name the user that owns the database"
type DatabaseSpec struct {
	// +kubebuilder:validation:Pattern=`^[a-z]([a-z0-9_]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Ensure is present or absent; absent drops the database.
	// +kubebuilder:default=present
	// +kubebuilder:validation:Enum=present;absent
	Ensure string `json:"ensure,omitempty"`
	// Owner is a user: one of spec.users, or one that is there.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Owner string `json:"owner,omitempty"`
	// Extensions of the database; others in it are left alone.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	Extensions []ExtensionSpec `json:"extensions,omitempty"`
}

// ExtensionSpec is an extension that the server has (pg_available_extensions).
type ExtensionSpec struct {
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9_-]*$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Ensure is present or absent; absent drops the extension unless something depends on it.
	// +kubebuilder:default=present
	// +kubebuilder:validation:Enum=present;absent
	Ensure string `json:"ensure,omitempty"`
}

// DatabasesStatus lists the users and databases that are there, declared or not, up to 100 of each.
type DatabasesStatus struct {
	Databases []DatabaseStatus `json:"databases,omitempty"`
	Users     []UserStatus     `json:"users,omitempty"`
}

// DatabaseStatus is a database that is there.
type DatabaseStatus struct {
	Name       string   `json:"name"`
	Owner      string   `json:"owner,omitempty"`
	Extensions []string `json:"extensions,omitempty"` // of a declared database
	Declared   bool     `json:"declared,omitempty"`
}

// UserStatus is a user that is there.
type UserStatus struct {
	Name      string `json:"name"`
	Login     bool   `json:"login,omitempty"`
	Superuser bool   `json:"superuser,omitempty"` // of users that are not declared
	Declared  bool   `json:"declared,omitempty"`
	// Credentials is the Secret, or the file, with the password that the operator has made.
	Credentials string `json:"credentials,omitempty"`
}

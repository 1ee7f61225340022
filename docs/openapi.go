// Package docs holds the description of the HTTP interface, for the program that serves it.
package docs

import _ "embed"

// OpenAPI is openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte

package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// fileFault is a fault of a file that a key names.
type fileFault struct {
	key  string // full path, such as kafka.tls.ca_file
	file string
	err  error
}

// Error names the file. For a relative path it omits the path of the system's error, which depends on the working directory.
func (f *fileFault) Error() string {
	if errors.Is(f.err, os.ErrNotExist) && !filepath.IsAbs(f.file) {
		return fmt.Sprintf("%s: %v, seen from the directory that the worker is started in", strconv.Quote(f.file), f.err)
	}
	return fmt.Sprintf("%s: %v", strconv.Quote(f.file), f.err)
}

func (f *fileFault) Unwrap() error { return f.err }

var errTooLarge = errors.New("has more than")

// readFile reads at most one byte more than most, since the name may lead to a device. That it was not all is an errTooLarge.
func readFile(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%w %s", errTooLarge, formatSize(most))
	}
	return data, reason(err)
}

// reason returns the system's error without the path, which messages have already.
func reason(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

const (
	mostPEMBytes      = 4 << 20 // a system's roots are 200 KiB
	mostPasswordBytes = 64 << 10
)

// authorities returns the certificates in a file; nil, which is the system's roots, without one.
func authorities(key, file string) (*x509.CertPool, *fileFault) {
	if file == "" {
		return nil, nil
	}
	data, err := readFile(file, mostPEMBytes)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(data) {
		err = errors.New("holds no certificate in PEM")
	}
	if err != nil {
		return nil, &fileFault{key, file, err}
	}
	return pool, nil
}

// pair returns the certificate and its key; nil without one.
func (t *TLS) pair(section string) (*tls.Certificate, []*fileFault) {
	if t.CertFile == "" || t.KeyFile == "" {
		return nil, nil
	}
	var faults []*fileFault
	read := func(key, file, what string, is func(kind string) bool) []byte {
		data, err := readFile(file, mostPEMBytes)
		if err == nil && !holdsPEM(data, is) {
			err = fmt.Errorf("holds no %s in PEM", what)
		}
		if err != nil {
			faults = append(faults, &fileFault{section + key, file, err})
		}
		return data
	}
	cert := read(".cert_file", t.CertFile, "certificate", func(kind string) bool { return kind == "CERTIFICATE" })
	key := read(".key_file", t.KeyFile, "private key", func(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") })
	if len(faults) > 0 {
		return nil, faults
	}
	both, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, []*fileFault{{section + ".cert_file", t.CertFile, fmt.Errorf("with key_file: %w", err)}}
	}
	return &both, nil
}

func holdsPEM(data []byte, is func(kind string) bool) bool {
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return false
		}
		if is(block.Type) {
			return true
		}
		data = rest
	}
}

// readSecret reads a secret's file, without the end of the line that editors and echo leave; "" without one.
func readSecret(key, file string) (string, *fileFault) {
	if file == "" {
		return "", nil
	}
	data, err := readFile(file, mostPasswordBytes)
	password := strings.TrimRight(string(data), "\r\n")
	if err == nil && password == "" {
		err = errors.New("is empty")
	}
	if err != nil {
		return "", &fileFault{key, file, err}
	}
	return password, nil
}

// faultOf returns a file's fault with the position of the key that names it; nil without one.
func (c *Config) faultOf(f *fileFault) error {
	if f == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.Where(f.key), f)
}

// renewed returns a function that reads the certificate and its key, after a first reading. Certificates are renewed at run time, so each
// handshake calls it.
func (t *TLS) renewed(c *Config, section string) (load func() (*tls.Certificate, error), err error) {
	load = func() (*tls.Certificate, error) {
		pair, faults := t.pair(section)
		if len(faults) > 0 {
			return nil, c.faultOf(faults[0])
		}
		return pair, nil
	}
	_, err = load()
	return load, err
}

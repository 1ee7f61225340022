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

type fileFault struct {
	key  string // below its section, such as ca_file
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

// readFile reads at most most bytes, since the name may lead to a device.
func readFile(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("has more than %s", formatSize(most))
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

func authorities(key, file string) (*x509.CertPool, *fileFault) {
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

func (t *TLS) pair() (*tls.Certificate, []*fileFault) {
	var faults []*fileFault
	read := func(key, file, what string, is func(kind string) bool) []byte {
		data, err := readFile(file, mostPEMBytes)
		if err == nil && !holdsPEM(data, is) {
			err = fmt.Errorf("holds no %s in PEM", what)
		}
		if err != nil {
			faults = append(faults, &fileFault{key, file, err})
		}
		return data
	}
	cert := read("cert_file", t.CertFile, "certificate", func(kind string) bool { return kind == "CERTIFICATE" })
	key := read("key_file", t.KeyFile, "private key", func(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") })
	if len(faults) > 0 {
		return nil, faults
	}
	both, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, []*fileFault{{"cert_file", t.CertFile, fmt.Errorf("with key_file: %w", err)}}
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

// readSecret reads a secret's file, without the end of the line that editors and echo leave.
func readSecret(key, file string) (string, *fileFault) {
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

func (t *TLS) faults() []*fileFault {
	var all []*fileFault
	if !t.Enabled {
		return nil
	}
	if t.CAFile != "" {
		if _, f := authorities("ca_file", t.CAFile); f != nil {
			all = append(all, f)
		}
	}
	if t.CertFile != "" && t.KeyFile != "" {
		_, more := t.pair()
		all = append(all, more...)
	}
	return all
}

// workersFiles reports files of a worker that are missing, unreadable for this process's user, or malformed.
func (d *decoder) workersFiles(c *Config) {
	d.kafkaFiles(c)
	d.reportFiles("redis.tls", c.Redis.TLS.faults()...)
	if file := c.Redis.PasswordFile; file != "" {
		if _, f := readSecret("password_file", file); f != nil {
			d.reportFiles("redis", f)
		}
	}
}

func (d *decoder) kafkaFiles(c *Config) {
	d.reportFiles("kafka.tls", c.Kafka.TLS.faults()...)
	d.registryFiles(&c.Kafka.SchemaRegistry)
	sasl := &c.Kafka.SASL
	if file := sasl.TokenFile; file != "" {
		if _, f := readSecret("token_file", file); f != nil {
			d.reportFiles("kafka.sasl", f)
		}
	}
	if sasl.TokenCAFile != "" {
		if _, f := authorities("token_ca_file", sasl.TokenCAFile); f != nil {
			d.reportFiles("kafka.sasl", f)
		}
	}
	if file := sasl.PasswordFile; file != "" {
		password, f := readSecret("password_file", file)
		if f == nil {
			if err := sasl.Mechanism.carries(password); err != nil {
				f = &fileFault{"password_file", file, err}
			}
		}
		if f != nil {
			d.reportFiles("kafka.sasl", f)
		}
	}
}

func (d *decoder) registryFiles(r *SchemaRegistry) {
	const section = "kafka.schema_registry"
	d.reportFiles(section+".tls", r.TLS.faults()...)
	for key, file := range map[string]string{"password_file": r.PasswordFile, "token_file": r.TokenFile} {
		if file == "" {
			continue
		}
		if _, f := readSecret(key, file); f != nil {
			d.reportFiles(section, f)
		}
	}
}

func (d *decoder) serveFiles(c *Config) {
	d.reportFiles("serve", c.Serve.faults()...)
}

func (d *decoder) reportFiles(section string, faults ...*fileFault) {
	for _, f := range faults {
		key := section + "." + f.key
		d.fault(key, d.places[key], "%v", f)
	}
}

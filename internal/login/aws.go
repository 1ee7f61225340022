package login

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
)

// awsTokens makes tokens for Amazon MSK, signed with the credentials that AWS' own tools would find: of the environment, a profile, a
// service account's web identity, a container or an instance. These are looked for at the first connection, and anew as they end. A
// token is signed here, so that each connection has one of its own; it lasts a quarter of an hour.
func awsTokens(region string) (func(context.Context) (string, error), error) {
	var options []func(*awsconfig.LoadOptions) error
	if region != "" {
		options = append(options, awsconfig.WithRegion(region))
	}
	// The environment and the profiles' files; nothing is asked for over the network yet.
	found, err := awsconfig.LoadDefaultConfig(context.Background(), options...)
	if err != nil {
		return nil, fmt.Errorf("reading AWS' configuration: %w", err)
	}
	if found.Region == "" {
		return nil, errors.New("no AWS region is known: set region, or AWS_REGION")
	}
	return signed(found.Region, found.Credentials), nil
}

func signed(region string, credentials aws.CredentialsProvider) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		token, _, err := signer.GenerateAuthTokenFromCredentialsProvider(ctx, region, credentials)
		if err != nil {
			return "", fmt.Errorf("signing a token for Amazon MSK: %w", err)
		}
		return token, nil
	}
}

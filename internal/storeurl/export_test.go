package storeurl

// CreateKeyFile and LoadKeyFile are what a URL with encrypt+ does with the file of its keys.
var CreateKeyFile, LoadKeyFile = createKeyFile, loadKeyFile

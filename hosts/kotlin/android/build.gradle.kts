// The client as an Android library (AAR) that carries liblean: ./build-native.sh first, then `gradle assembleRelease`.
// NOT RUN HERE: the project's tests have neither the Android SDK nor a device.
plugins {
    id("com.android.library") version "8.7.3"
    kotlin("android") version "2.1.20"
    kotlin("plugin.serialization") version "2.1.20"
}

android {
    namespace = "lean"
    compileSdk = 35
    defaultConfig {
        minSdk = 26
        ndk { abiFilters += listOf("arm64-v8a", "x86_64") }
    }
    sourceSets["main"].apply {
        // The JVM's sources, but for the process: an app may start none.
        kotlin.srcDir("../src/main/kotlin")
        kotlin.exclude("lean/BridgeProcess.kt")
        kotlin.srcDir("src/main/kotlin")
        jniLibs.srcDir("build/jniLibs")
    }
    // Uncompressed and mapped from the APK, which for pages of 16 KiB has to be aligned to them: version 8.5.1 and later of the plugin does.
    packaging { jniLibs { useLegacyPackaging = false } }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
    kotlinOptions { jvmTarget = "17" }
}

dependencies {
    api("org.jetbrains.kotlinx:kotlinx-coroutines-android:1.10.1")
    api("org.jetbrains.kotlinx:kotlinx-serialization-json:1.8.0")
    implementation("net.java.dev.jna:jna:5.16.0@aar")
}

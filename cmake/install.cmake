# The library for programs outside of Once: headers, static libraries, a CMake package and pkg-config files.
#   cmake --install build/release --component library --prefix /usr/local
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(once_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/once)

# What a consumer names is once::guard or once::gate, the stores behind a server that it uses, and once::client; the others
# come with them.
set(once_layers base core client store postgres mysql redis guard http gateway claims admin config gate)
foreach(layer ${once_layers})
  set_target_properties(once_${layer} PROPERTIES EXPORT_NAME ${layer})
  target_compile_features(once_${layer} PUBLIC cxx_std_23)
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND ONCE_LTO)
    # Machine code beside the bitcode: a consumer's linker need not be LLVM's.
    target_compile_options(once_${layer} PRIVATE -ffat-lto-objects)
  endif()
endforeach()
list(TRANSFORM once_layers PREPEND once_ OUTPUT_VARIABLE once_libraries)
install(TARGETS ${once_libraries} EXPORT once
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT once NAMESPACE once:: FILE once-targets.cmake DESTINATION ${once_package_folder} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/once DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/once-config.cmake.in ${PROJECT_BINARY_DIR}/once-config.cmake
  INSTALL_DESTINATION ${once_package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/once-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/once-config.cmake ${PROJECT_BINARY_DIR}/once-config-version.cmake
  DESTINATION ${once_package_folder} COMPONENT library)

# A pkg-config package for each part that a consumer may name, and once for all of them.
foreach(package once-guard once-gate once-client once)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
endforeach()
foreach(driver postgres:libpq mysql:libmariadb redis:hiredis)
  string(REPLACE ":" ";" driver ${driver})
  list(GET driver 0 once_driver)
  list(GET driver 1 once_driver_needs)
  get_target_property(options once_${once_driver} INTERFACE_LINK_OPTIONS)
  string(REPLACE "LINKER:" "-Wl," once_driver_options "${options}")
  set(file ${PROJECT_BINARY_DIR}/once-${once_driver}.pc)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/once-driver.pc.in ${file} @ONLY)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
endforeach()

# The C interface: the shared library, its header and a pkg-config file. Also a Debian package (package.cmake).
#   cmake --install build/release --component capi --prefix /usr/local
set(once_c_folder lib)
set(once_c_up ../..)
if(CMAKE_LIBRARY_ARCHITECTURE)
  set(once_c_folder lib/${CMAKE_LIBRARY_ARCHITECTURE})
  set(once_c_up ../../..)
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/libonce.pc.in ${PROJECT_BINARY_DIR}/libonce.pc @ONLY)
install(TARGETS once_c LIBRARY DESTINATION ${once_c_folder} COMPONENT capi)
install(FILES ${PROJECT_SOURCE_DIR}/include/once/once.h DESTINATION include/once COMPONENT capi)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/debian/copyright DESTINATION share/doc/libonce-dev COMPONENT capi)
install(FILES ${PROJECT_BINARY_DIR}/libonce.pc DESTINATION ${once_c_folder}/pkgconfig COMPONENT capi)
